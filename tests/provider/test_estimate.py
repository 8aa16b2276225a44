"""What is counted for a server that does not say what a call used."""

import base64
import json

import pytest

from instar.message import CacheTokens, Tokens
from instar.provider.estimate import FILE, counted, size
from instar.provider.protocol import Finish, ReasoningDelta, TextDelta, Told, ToolCallDelta, ToolCallStart

PICTURE = "data:image/png;base64," + base64.b64encode(bytes(300_000)).decode()


@pytest.mark.parametrize(
    ("content", "said", "expected"),
    [
        (b"x" * 4000, 400, (1000, 100)),
        (b"x" * 4000, 1, (1000, 1)),
        (b"x" * 4000, 0, (1000, 0)),
        (json.dumps({"url": PICTURE, "text": "y" * 393}).encode(), 0, (103 + FILE, 0)),
        (json.dumps({"data": PICTURE.partition(",")[2], "text": "y" * 392}).encode(), 0, (103 + FILE, 0)),
    ],
)
def test_what_was_sent_and_said_is_counted(content: bytes, said: int, expected: tuple[int, int]) -> None:
    found = counted(Finish("stop", Tokens.zero()), content, said).tokens
    assert (found.input, found.output, found.total) == (*expected, sum(expected))


@pytest.mark.parametrize(
    "given",
    [
        Tokens(input=1, output=0, reasoning=0, cache=CacheTokens(read=0, write=0)),
        Tokens(input=0, output=0, reasoning=0, cache=CacheTokens(read=5, write=0)),
    ],
)
def test_what_a_server_says_counts(given: Tokens) -> None:
    assert counted(Finish("stop", given), b"x" * 4000, 100).tokens == given


def test_all_that_a_model_writes_is_part_of_its_answer() -> None:
    deltas = [TextDelta("ab"), ReasoningDelta("c"), ToolCallStart(0, "id", "de"), ToolCallDelta(0, "f")]
    assert [size(one) for one in deltas] == [2, 1, 2, 1]
    assert size(Told(Tokens.zero())) == 0
