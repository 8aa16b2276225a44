"""The simulator keeps the rules that providers document, to the byte, the block and the millisecond."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.caching import HOUR_1, MINUTES_5, Line, Report, replay

from bench import caching

MARK = {"type": "ephemeral"}
CLAUDE = "claude-sonnet-4-5"


def text(number: int, size: int = 5000, mark: Any = None) -> dict[str, Any]:
    block = {"type": "text", "text": f"{number} ".ljust(size, "x")}
    return {**block, "cache_control": mark} if mark else block


def claude(time: int, *turns: list[dict[str, Any]], model: str = CLAUDE, **body: Any) -> Line:
    """A request whose turns are a person's and the model's in turn; the system prompt is 5,000 bytes, marked."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]
    whole = {"system": [text(0, 5000, MARK)], "messages": messages, **body}
    return line(time, "anthropic", model, whole)


def line(time: int, protocol: str, model: str, body: Any, **more: Any) -> Line:
    raw = json.dumps(body, separators=(",", ":")).encode()
    known = {"url": "https://x", "session": "s", "purpose": "turn"}
    return Line(time=time, protocol=protocol, model=model, body=caching.msgspec.Raw(raw), **{**known, **more})


def gpt(time: int, *texts: str, key: str = "s", **more: Any) -> Line:
    messages = [{"role": "user", "content": one} for one in texts]
    return line(time, "openai", "gpt", {"messages": messages, "prompt_cache_key": key}, **more)


def shares(*lines: Line) -> Report:
    return replay(lines)


def test_anthropic_serves_what_the_last_breakpoint_of_the_request_before_wrote() -> None:
    first = claude(0, [text(1, mark=MARK)])
    second = claude(1000, [text(1, mark=MARK)], [text(2)], [text(3, mark=MARK)])
    found = shares(first, second)
    assert (found.share, found.breaks, found.late) == (1.0, [], [])
    assert 2500 < found.read < 2550


@pytest.mark.parametrize(
    ("mark", "gap", "served"),
    [
        (MARK, MINUTES_5 - 1, True),
        (MARK, MINUTES_5, False),
        (MARK | {"ttl": "5m"}, MINUTES_5, False),
        (MARK | {"ttl": "1h"}, MINUTES_5, True),
        (MARK | {"ttl": "1h"}, HOUR_1, False),
    ],
)
def test_anthropic_keeps_an_entry_for_its_lifetime(mark: Any, gap: int, served: bool) -> None:
    body = [text(1, mark=mark)]
    found = shares(claude(0, body, system=[]), claude(gap, body, system=[]))
    assert (found.read > 0) == served
    assert bool(found.late) != served


def test_each_use_keeps_an_entry_anew() -> None:
    lines = [claude(step * (MINUTES_5 - 1), [text(1, mark=MARK)]) for step in range(5)]
    assert shares(*lines).share == 1.0


@pytest.mark.parametrize(("between", "served"), [(1, True), (20, True), (21, False)])
def test_a_breakpoint_looks_back_twenty_blocks_and_no_further(between: int, served: bool) -> None:
    """The breakpoint's own block is the first of the twenty."""
    old = [text(1, mark=MARK)]
    more = [text(number, 10) for number in range(2, between)]
    new = [text(1), *more, text(99, mark=MARK)]
    found = shares(claude(0, old, system=[]), claude(1, new, system=[]))
    assert (found.read > 0) == served


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (CLAUDE, 1024),
        ("claude-opus-4-5", 4096),
        ("claude-haiku-4-5", 4096),
        ("claude-opus-5", 512),
        ("k", 4096),
    ],
)
def test_anthropic_caches_no_prefix_shorter_than_the_models_least(model: str, least: int) -> None:
    for size, served in ((least * 4 - 100, False), (least * 4 + 100, True)):
        body = [text(1, size, MARK)]
        lines = [claude(time, body, model=model, system=[]) for time in (0, 1)]
        assert (shares(*lines).read > 0) == served


@pytest.mark.parametrize(
    ("change", "place", "system_stays"),
    [
        ({"tools": [{"name": "b", "input_schema": {}}]}, "tool 1", False),
        ({"tools": []}, "tool 1 / system", False),
        ({"system": [text(9, 5000, MARK)]}, "system", False),
        ({"tool_choice": {"type": "any"}}, "options", True),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "options", True),
    ],
)
def test_a_change_breaks_what_follows_it_and_leaves_what_is_before(
    change: Any, place: str, system_stays: bool
) -> None:
    before = {"tools": [{"name": "a", "input_schema": {}}]}
    body = [text(1, mark=MARK)]
    found = shares(claude(0, body, **before), claude(1, body, **{**before, **change}))
    assert [one.place for one in found.breaks] == [place]
    assert (found.read > 1200) == system_stays
    assert found.share < 0.6


def test_another_model_shares_nothing() -> None:
    body = [text(1, mark=MARK)]
    found = shares(claude(0, body), claude(1, body, model="claude-sonnet-4-6"))
    assert (found.read, [one.place for one in found.breaks]) == (0, ["model claude-sonnet-4-6"])


def test_more_breakpoints_than_anthropic_takes_are_an_error() -> None:
    with pytest.raises(ValueError, match="5 breakpoints"):
        shares(claude(0, [text(number, mark=MARK) for number in range(4)]))


@pytest.mark.parametrize(("size", "steps"), [(4000, 0), (4200, 8), (4096 + 600, 9), (20_000, 39)])
def test_openai_serves_from_1024_tokens_on_in_steps_of_128(size: int, steps: int) -> None:
    found = shares(gpt(0, "y" * size), gpt(1, "y" * size, "more"))
    assert found.read == steps * 128
    assert found.share == 1.0


def test_openai_serves_nothing_past_the_first_changed_byte_nor_for_another_key() -> None:
    whole = "y" * 20_000
    changed = whole[:8000] + "z" + whole[8001:]
    found = shares(gpt(0, whole), gpt(1, changed))
    assert found.read == 1920
    assert [one.place for one in found.breaks] == ["message 1"]
    assert shares(gpt(0, whole), gpt(1, whole, key="other")).read == 0
    assert shares(gpt(0, whole), gpt(MINUTES_5, whole)).read == 0


def test_what_failed_is_left_out_and_what_is_no_turn_is_no_break() -> None:
    whole = "y" * 20_000
    found = shares(
        gpt(0, whole),
        gpt(1, "nothing", error="refused"),
        gpt(2, "a title", purpose="title"),
        gpt(3, whole, "more"),
    )
    assert (found.requests, found.breaks, found.share) == (3, [], 1.0)


@pytest.mark.slow
def test_the_command_prints_the_shares_and_names_a_line_that_is_no_record(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    lines = [caching.msgspec.json.encode(gpt(time, "y" * 20_000)) for time in (0, 1)]
    file.write_bytes(b"\n".join(lines) + b"\n")
    argv = [sys.executable, "-m", "bench.caching", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "100.00% of what could be" in done.stdout
    file.write_bytes(lines[0] + b"\n{}\n")
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split(": ")[:2]) == (1, ["error", f"{file}:2"])
