"""Sessions of opencode's database: which ones a person means, and each as a record that can be checked."""

from collections.abc import Sequence
from pathlib import Path

from instar.exchange.transcript import ExchangeError, Here, Record, Transcript, transcript_of
from instar.store import PutProject, StoreError
from instar.store.opencode import OpencodeDatabase, Summary


def of_folder(found: Sequence[Summary], folder: Path, project_id: str | None = None) -> list[Summary]:
    """Return the sessions of a folder: made in it or below, or of a project whose folder or id it is.

    The project of everything that is no repository is no folder's own: its sessions go by their directory.
    """
    return [
        one
        for one in found
        if Path(one.directory).is_relative_to(folder)
        or (one.vcs and (Path(one.worktree) == folder or one.project_id == project_id))
    ]


def families(found: Sequence[Summary], chosen: Sequence[Summary]) -> list[list[Summary]]:
    """Return the chosen sessions with all that descend from them, each family parent first, as `chosen` goes."""
    below: dict[str, list[Summary]] = {}
    for one in found:
        below.setdefault(one.parent_id or "", []).append(one)
    wanted = {one.id for one in chosen}
    seen: set[str] = set()
    made = []
    # A chosen child comes with its parent, if that is chosen too.
    for head in sorted(chosen, key=lambda one: one.parent_id in wanted):
        family = [head] if head.id not in seen else []
        for one in family:
            seen.add(one.id)
            family += [child for child in below.get(one.id, []) if child.id not in seen]
        if family:
            made.append(family)
    return made


def read_family(
    database: OpencodeDatabase, family: Sequence[Summary], now: int
) -> tuple[list[Transcript], PutProject]:
    """Return a family's sessions, checked, and the row of their project.

    They stay in their own project and folder: the database is of the same machine. Broken messages and parts
    are left out and noted. Raises `ExchangeError` when a session's own row is broken.
    """
    head = family[0]
    transcripts = [_read(database, one, now) for one in family]
    return transcripts, PutProject(head.project_id, head.worktree, head.vcs, now)


def _read(database: OpencodeDatabase, one: Summary, now: int) -> Transcript:
    try:
        record = Record(database.info(one.id), database.messages(one.id), database.todos(one.id))
        return transcript_of(record, Here(now), lenient=True)
    except (StoreError, ExchangeError) as error:
        raise ExchangeError(f"session {one.id[:40]} cannot be read: {error}") from error
