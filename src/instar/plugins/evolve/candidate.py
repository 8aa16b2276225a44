"""A candidate: a change of a workspace's files that has not been installed.

It is a whole new text of one hook script or prompt, and new files that go with it. Trying it is the gate's work.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.trial import Changes, TrialFile

PROFILES: Final = "config/profiles/"
"""Where profiles stand: settings that a run may start with. Scripts do not get them."""


class CandidateRefused(Exception):
    """A candidate that may not be installed; the text tells the model why, with the output. `stage` is the gate's."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(text)
        self.stage = stage


class Candidate(msgspec.Struct, frozen=True):
    """A new version of the file `path` (``hooks/x.py``, ``prompts/chat.md``); `before` is None for a new file.

    `also` are new files that go with it, by path: the test of a new script. `expect` is what its author predicts.
    """

    path: str
    before: TrialFile | None
    after: TrialFile
    also: Mapping[str, TrialFile] = {}
    expect: Prediction | None = None

    @property
    def is_hook(self) -> bool:
        """Whether it is a hook script."""
        return self.path.startswith("hooks/")

    @property
    def is_profile(self) -> bool:
        """Whether it is a profile."""
        return self.path.startswith(PROFILES)

    @property
    def file(self) -> str:
        """The bare name of its file."""
        return self.path.partition("/")[2]

    @property
    def changes(self) -> Changes:
        """What is different in a workspace with the candidate in place."""
        return {self.path: self.after, **self.also}


def text(content: bytes) -> str:
    """Return a version's text; what is not UTF-8 reads as replacement characters."""
    return content.decode(errors="replace")
