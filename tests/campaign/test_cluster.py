"""The campaign of workers: its checker finds what it is there to find, and a minute of it passes with one worker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.campaign.cluster import COLUMNS, Effect, Taken, effects, judge_effects, judge_events, judge_history

ROOT = Path(__file__).parents[2]


def start(turn: str, step: int, worker: str = "w0.1") -> Effect:
    return Effect("start", turn, step, worker, 1.0)


def asked(turn: str) -> Any:
    return {"info": {"id": f"msg_{turn}", "role": "user"}, "parts": [{"text": f"work {turn}"}]}


def answer(turn: str, status: str = "completed", finish: str = "stop") -> Any:
    state = {"status": status, "input": {"command": f"./act {turn} 1"}}
    info = {"role": "assistant", "parentID": f"msg_{turn}", "finish": finish, "time": {"completed": 1}}
    return {"info": info, "parts": [{"type": "tool", "state": state}]}


def found(judged: dict[str, list[str]]) -> dict[str, list[str]]:
    return {column: texts for column, texts in judged.items() if texts}


def test_a_call_that_runs_twice_and_an_owner_that_comes_back_are_found() -> None:
    good = [start("s01t001", 1), start("s02t001", 1), start("s01t001", 2, "w1.1"), start("s01t002", 1)]
    assert found(judge_effects(good)) == {}
    assert found(judge_effects([*good, start("s02t001", 1)])) == {
        "doubled": ["call 1 of s02t001 ran 2 times"]
    }
    assert found(judge_effects([*good, start("s01t001", 3)])) == {
        "out of order": ["s01t001 3 came after s01t002 1"],
        "overlapping": ["s01t001 was run by w0.1 again after w1.1"],
    }
    back = [start("s01t001", 1), start("s01t001", 2, "w1.1"), start("s01t001", 3)]
    assert found(judge_effects(back, [Taken("s01", "w0.1", 0.2), Taken("s01", "w1.1", 0.4)])) == {
        "overlapping": ["s01t001 was run by w0.1 again after w1.1"]
    }
    assert found(judge_effects(back, [Taken("s01", "w1.1", 0.2), Taken("s01", "w0.1", 0.4)])) == {}


def test_a_line_that_a_kill_has_cut_is_none(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("start s01t001 1 w0.1 2000000000\nend s01t001 1")
    assert effects(tmp_path / "e") == [Effect("start", "s01t001", 1, "w0.1", 2.0)]


def test_what_a_history_lacks_is_found() -> None:
    sent = {"s01t001": True, "s01t002": False, "s01t003": True}
    good = [asked("s01t001"), answer("s01t001"), asked("s01t003"), answer("s01t003")]
    noted = [start("s01t001", 1)]
    assert found(judge_history(sent, good, noted)) == {}
    told = {"info": {"id": "msg_told", "role": "user"}, "parts": [{"type": "text", "text": "[evolve] new"}]}
    answered = {**answer("s01t003"), "info": {**answer("s01t003")["info"], "parentID": "msg_told"}}
    assert found(judge_history(sent, [*good[:3], told, answered], noted)) == {}
    assert found(judge_history(sent, good[:2], noted)) == {
        "lost": ["the prompt s01t003 was accepted and is gone"]
    }
    assert found(judge_history(sent, good, [start("s01t001", 2)])) == {
        "lost": ["call 2 of s01t001 ran and is not in the history"]
    }
    assert found(judge_history(sent, [*good, asked("s01t003")], noted)) == {
        "doubled": ["the prompt s01t003 stands 2 times in the history"]
    }
    assert found(judge_history(sent, [*good[2:], *good[:2]], noted)) == {
        "out of order": ["the prompts stand as s01t003, s01t001"]
    }
    assert found(judge_history(sent, [*good[:3], answer("s01t003", "running", "tool-calls")], noted)) == {
        "unfinished": ["a call of s01t003 counts as running", "s01t003 has no answer"]
    }


def test_what_a_client_missed_or_heard_twice_is_found() -> None:
    stored = ["a", "b", "c", "d"]
    assert found(judge_events(stored, ["b", "c", "d"])) == {}
    assert found(judge_events(stored, ["b", "d"])) == {"events missed": ["c was not heard"]}
    assert found(judge_events(stored, ["b", "c", "c", "d"])) == {"events doubled": ["c was heard twice"]}
    assert found(judge_events(stored, ["b", "d", "c"])) == {
        "events out of order": ["2 events were heard in another order"]
    }


@pytest.mark.slow
def test_one_worker_without_faults_has_nothing_to_find() -> None:
    arguments = ["--minutes", "0.3", "--workers", "1", "--sessions", "4", "--pause", "0", "--json"]
    command = [sys.executable, "-m", "tests.campaign.cluster", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, []), done.stderr
    assert [report["counts"][one] for one in COLUMNS] == [0] * len(COLUMNS)
    assert report["counts"]["turns done"] > 5
