"""Records of calls: what is kept, what is not, and what a damaged one costs."""

import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import take_quickest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.gate.record import LARGEST, Bounds, HookCallRecord, Records, names_secret, redact

KEY = 'sk-very/secret"é\n4711'


def call(at: int = 1, hook: str = "idle", script: str = "a.py", **fields: Any) -> HookCallRecord:
    stdin = json.dumps({"hook": hook, "session": {"id": "ses_1"}, **fields}).encode()
    return HookCallRecord(
        script=script,
        hook=hook,
        at=at,
        stdin=stdin,
        duration=7,
        commit="abc123",
        answer={"n": at},
    )


Make = Callable[..., Records]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Records] = []

    def begin(secrets: Sequence[str] = (), **bounds: int) -> Records:
        made.append(Records(Database(tmp_path / "data"), lambda: secrets, Bounds(**bounds)))
        return made[-1]

    yield begin
    for one in made:
        await one.close()


async def test_a_call_comes_back_as_it_was(make: Make) -> None:
    record = call(answer_to="é", at=5)
    records = make()
    records.add(record)
    assert (await records.read()).records == (record,)
    await records.close()
    assert (await make().read("a.py")).records == (record,)
    assert (await make().read("b.py")).records == ()


async def test_a_failed_call_is_kept_with_how_it_failed(make: Make) -> None:
    failed = HookCallRecord(script="a", hook="idle", at=1, stdin=b"{}", duration=3, failure="crash")
    records = make()
    records.add(failed)
    assert (await records.read()).records == (failed,)


async def test_only_the_newest_calls_of_each_script_and_hook_stay(make: Make) -> None:
    records = make(calls=3)
    for at in range(1, 9):
        records.add(call(at))
    for at in (1, 2):
        records.add(call(at, hook="tool_after"))
        records.add(call(at, script="b.py"))
    found = (await records.read()).records
    assert [one.at for one in found if (one.script, one.hook) == ("a.py", "idle")] == [8, 7, 6]
    assert sorted((one.script, one.hook, one.at) for one in found if one.at < 3) == [
        ("a.py", "tool_after", 1),
        ("a.py", "tool_after", 2),
        ("b.py", "idle", 1),
        ("b.py", "idle", 2),
    ]


async def test_the_oldest_go_when_all_together_are_too_large(make: Make, tmp_path: Path) -> None:
    # Text that does not compress.
    noise = random.Random(1)
    records = make(calls=1000, size=40_000)
    for at in range(1, 70):
        records.add(call(at, hook=f"hook_{at % 3}", text=noise.randbytes(1500).hex()))
    found = (await records.read()).records
    kept = [one.at for one in found]
    assert kept == list(range(69, 69 - len(kept), -1))
    # It is counted every 32 records.
    ((size,),) = Database(tmp_path / "data").rows("SELECT sum(length(value)) FROM call")
    assert size < 40_000 + 33 * 2000
    assert len(kept) < 66


async def test_a_call_that_is_too_large_is_not_kept(make: Make) -> None:
    records = make()
    records.add(call(1, text="x" * LARGEST))
    records.add(call(2))
    assert [one.at for one in (await records.read()).records] == [2]


async def test_discover_is_not_kept(make: Make) -> None:
    records = make()
    records.add(call(hook="discover"))
    assert (await records.read()).records == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-5],
        lambda data: b"",
        lambda data: b"\0" * len(data),
        lambda data: data[: len(data) // 2] + b"x" + data[len(data) // 2 + 1 :],
    ],
)
async def test_a_damaged_record_is_left_out_and_said(
    make: Make, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    records = make()
    records.add(call(1))
    records.add(call(2))
    await records.read()
    database = Database(tmp_path / "data")
    ((value,),) = database.rows("SELECT value FROM call WHERE at = 1")
    row = (damage(value),)
    database.change(lambda connection: connection.execute("UPDATE call SET value = ? WHERE at = 1", row))
    kept = await records.read()
    assert [one.at for one in kept.records] == [2]
    (problem,) = kept.problems
    assert problem.startswith("the record of a.py idle at 1 is left out")


async def test_a_folder_that_cannot_be_made_costs_the_records_and_not_the_call(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("in the way")
    records = make()
    records.add(call())
    assert (await records.read()).records == ()
    assert records.problem is not None
    assert "could not be recorded" in records.problem


async def test_recording_does_not_hold_up_the_call(make: Make) -> None:
    record = call(text="some words " * 80_000)
    records = make([f"secret-{number:06d}" for number in range(30)])

    def added() -> float:
        begun = time.perf_counter()
        for _ in range(10):
            records.add(record)
        return time.perf_counter() - begun

    assert take_quickest(added, 0.05) < 0.05
    await records.close()


async def test_no_record_holds_a_secret(make: Make) -> None:
    records = make([KEY])
    nested = json.dumps({"deep": json.dumps({"said": KEY})})
    record = call(text=f"my key is {KEY}.", nested=nested, env={"API_KEY": "plain-value-9", "n": 1})
    made = {"result": f"<{KEY}>", "actions": [{"type": "send", "password": "plain-value-9"}]}
    records.add(HookCallRecord(script="a", hook="idle", at=1, stdin=record.stdin, duration=1, answer=made))
    (found,) = (await records.read()).records
    assert found.answer == {"result": "<***>", "actions": [{"type": "send", "password": "***"}]}
    for text in (found.stdin.decode(), str(json.loads(found.stdin))):
        for piece in ("very", "secret", "4711", "plain-value-9"):
            assert piece not in text
    assert json.loads(found.stdin)["text"] == "my key is ***."


@pytest.mark.parametrize("escape", ["plain", "unicode", "upper", "slash"])
def test_a_secret_is_found_however_json_writes_it(escape: str) -> None:
    ways: dict[str, Callable[[str], str]] = {
        "plain": lambda text: json.dumps(text, ensure_ascii=False),
        "unicode": lambda text: '"' + "".join(f"\\u{ord(one):04x}" for one in text) + '"',
        "upper": lambda text: '"' + "".join(f"\\u{ord(one):04X}" for one in text) + '"',
        "slash": lambda text: json.dumps(text).replace("/", "\\/"),
    }
    written = ways[escape](KEY)
    nested = json.dumps(json.dumps(written))
    for text in (written, nested):
        data = f'{{"a": [{text}, 1], {text}: null}}'.encode()
        cleaned = redact(data, [KEY])
        assert cleaned is not None
        assert "4711" not in cleaned.decode()
        assert "0034" not in cleaned.decode()
        assert b"***" in cleaned


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=12), st.integers(0, 4))
def test_a_secret_is_found_at_any_depth(secret: str, depth: int) -> None:
    text = f"[before]{secret}[after]"
    for _ in range(depth):
        text = json.dumps(text)
    cleaned = redact(json.dumps({"x": text}).encode(), [secret])
    assert cleaned is not None
    value: str = json.loads(cleaned)["x"]
    seen = [value]
    with contextlib.suppress(
        ValueError
    ):  # without a secret's last backslash the text inside is no JSON any more
        for _ in range(depth):
            seen.append(json.loads(seen[-1]))
    assert secret in "[before]***[after]" or not any(secret in text for text in seen)
    assert value.startswith(text.partition("before")[0])


def test_what_holds_no_secret_stays_byte_for_byte() -> None:
    data = b'{"hook" : "idle",\n"tokens": {"input": 5}, "max_tokens": 9, "x": "\\u00e9", "token": ""}'
    assert redact(data, [KEY, "short"]) == data


@pytest.mark.parametrize("data", [b"not json", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_not_recorded(data: bytes) -> None:
    assert redact(data, []) is None


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        *((key, True) for key in ("apiKey", "api-key", "API_KEY", "accessToken", "password", "clientSecret")),
        *((key, False) for key in ("callID", "keyboard", "tokenizer", "text", "author", "passed", "")),
    ],
)
def test_a_key_names_a_secret_as_a_variable_would(key: str, secret: bool) -> None:
    assert names_secret(key) is secret


def test_under_a_key_that_names_a_secret_every_kind_of_value_goes_but_counts_of_tokens() -> None:
    given = {"password": ["abc", 12, {"x": "kept"}], "apiKey": 7, "tokens": {"input": 3}, "maxTokens": 100}
    cleaned = redact(json.dumps(given).encode(), [])
    assert cleaned is not None
    assert json.loads(cleaned) == {
        "password": ["***", 0, {"x": "kept"}],
        "apiKey": 0,
        "tokens": {"input": 3},
        "maxTokens": 100,
    }
