"""The gate's look at a profile: it is one JSON object of a bounded size, whatever else it says."""

import pytest

from instar.plugins.evolve.candidate import Candidate, CandidateRefused
from instar.plugins.evolve.gate import stages
from instar.plugins.evolve.trial import TrialFile


def candidate(content: bytes) -> Candidate:
    return Candidate("config/profiles/x.json", None, TrialFile(content))


def test_a_json_object_passes() -> None:
    made = candidate(b'{"variables": {}}\n')
    assert made.is_profile
    assert not made.is_hook
    assert stages.profile(made) == "18 bytes of JSON"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a profile is JSON"),
        (b"{", "a profile is JSON"),
        (b"\xff{}", "a profile is JSON"),
        (b"[]", "a profile is a JSON object"),
        (b"null", "a profile is a JSON object"),
        (b'{"a": "' + b"x" * stages.LARGEST + b'"}', "a profile may have"),
    ],
)
def test_anything_else_is_refused_at_the_first_stage(content: bytes, said: str) -> None:
    with pytest.raises(CandidateRefused, match=said) as error:
        stages.profile(candidate(content))
    assert error.value.stage == "parse"
