"""All cases of the siege, and how a batch of them is played in a process of its own."""

import os
from collections.abc import Sequence

from tests.campaign.siege import clone, model, neighbour, page, repository
from tests.campaign.siege.case import Case, Ended, folder
from tests.sandbox.conftest import REACHED


def cases() -> list[Case]:
    """Return all cases, in the order of the table."""
    return sorted(
        [*model.cases(), *repository.cases(), *clone.cases(), *page.cases(), *neighbour.cases()],
        key=lambda case: ("model", "repository", "page", "local user").index(case.who),
    )


def is_possible_here(case: Case) -> bool:
    """Whether this machine has what the case needs."""
    if case.who == "local user" and os.geteuid() != 0:
        return False
    return case.level in ("any", "none", *REACHED)


def play(chosen: Sequence[Case]) -> list[Ended]:
    """Play cases of one batch in this process."""
    first = chosen[0]
    if first.who == "model":
        player = repository.play if first.door in repository.WRITTEN else model.play
    elif first.who == "repository":
        player = clone.play if first.door in clone.DOORS else repository.play
    else:
        player = page.play if first.who == "page" else neighbour.play
    with folder() as root:
        try:
            return list(player(chosen, root))
        except Exception as error:  # what could not be played shows nothing, and that is a finding
            return [Ended(case, f"it was not played: {error!r}"[:2000]) for case in chosen]
