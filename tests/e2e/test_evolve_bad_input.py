"""Hook scripts that misbehave: the session goes on, and the log says which, where, how long and what."""

import json
import os
import re

import pytest
from tests.running import having

STORY = '== turn\ntool: bash {"command": "echo out"}\ntool: good_t {}\n== turn\ntext: done\n'
HOOKS = ("discover", "mutate_request", "observe_message", "idle", "tool_before", "tool_after")
BIG = "head -c 10000100 /dev/zero | tr '\\0' 'x'"

BAD = {
    "broken JSON": ("echo '{\"system\": [oops'", "is not JSON", "oops"),
    "a list": ("echo '[1, 2]'", "should be a JSON object, not a list", "[1, 2]"),
    "a text": ("echo '\"s\"'", "should be a JSON object, not a string", '"s"'),
    "10 MB": (BIG, "printed more than 10000000 bytes", "xxxxx"),
    "not UTF-8": ("printf 'caf\\351\\n'", "is not UTF-8", "caf\N{REPLACEMENT CHARACTER}"),
    "exits 3": ("echo why >&2; exit 3", "exit code 3", "why"),
    "hangs": ('echo \'{"log": "going to sleep"}\'; sleep 60', "hook_timeout (2000 ms)", "going to sleep"),
    "a signal": ("echo soon; kill -9 $$", "signal 9 (SIGKILL)", "soon"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", BAD)
def test_a_script_that_misbehaves_stops_nothing_and_the_log_says_which_hook_how_long_and_what(person, how):
    code, why, printed = BAD[how]
    hooks = ("discover", "idle", "tool_before") if how == "hangs" else HOOKS
    answers_once = (
        f"[ -e state/asked ] || {{ mkdir -p state; touch state/asked; echo '{{}}'; exit; }}; {code}"
    )
    person.shell("bad.sh", **{**dict.fromkeys(hooks, f"$ {code}"), "discover": f"$ {answers_once}"})
    person.shell(
        "good.sh", discover='{"tools": [{"name": "t"}]}', tool_after="{}", execute_tool='{"result": "ran"}'
    )
    limit = "2000" if how == "hangs" else "20000"
    person.run(
        "== turn\ntext: a script that never answered discover would not be called\n",
        EVOLVE_HOOK_TIMEOUT=limit,
    )
    ran = person.run(STORY, EVOLVE_HOOK_TIMEOUT=limit)
    assert ran.stdout == "done\n"
    assert person.results() == ["out\n", "ran"]
    for hook in hooks:
        (line, *_) = ran.logged("script=bad.sh", f"hook={hook} failed=")
        assert why in line
        assert printed in line.replace('\\"', '"')
        assert re.search(r" ms=\d+ ", line)
    assert len(person.calls("good.sh", "tool_after")) == 2
    assert max(map(len, ran.log)) < 2000


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exits 3", "hangs", "10 MB"])
def test_a_tool_whose_script_misbehaves_is_an_error_for_the_model_that_fits_its_window(person, how):
    code, why, _ = BAD[how]
    person.shell("bad.sh", discover='{"tools": [{"name": "t"}]}', execute_tool=f"$ {code}")
    person.run("== turn\ntool: bad_t {}\n== turn\ntext: done\n",
               EVOLVE_HOOK_TIMEOUT="2000" if how == "hangs" else "20000")  # fmt: skip
    (result,) = person.results()
    assert why in result
    assert len(result) < 2000


def test_a_script_without_its_run_bit_is_reported_and_not_run(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["s"]}').chmod(0o644)
    ran = person.run("== turn\ntool: evolve_hook_list {}\n== turn\ntext: done\n")
    assert person.calls("a.sh", "discover") == []
    assert "run bit" in person.results()[0]
    assert ran.logged("a.sh", "missing its run bit: chmod +x")


UNSTARTABLE = [
    ("#!/none/such\n", "could not be started"),
    ("#!/bin/sh\r\necho '{}'\r\n", "carriage return"),
    ("#!/usr/bin/env python3\r\nprint('{}')\r\n", "its first line ends in CRLF"),
    ("echo no first line\n", "could not be started"),
    ("", "could not be started"),
]


def test_a_script_that_cannot_be_started_is_logged_with_the_reason(person):
    for number, (text, _) in enumerate(UNSTARTABLE):
        (person.script(f"{number}.sh", "")).write_bytes(text.encode())
    ran = person.run("== turn\ntext: done\n")
    for number, (_, why) in enumerate(UNSTARTABLE):
        assert why in ran.logged(f"script={number}.sh", "hook=discover failed=")[0]


@pytest.mark.slow
def test_a_hanging_script_is_ended_with_all_that_it_started(person):
    # A number of this process: another run of the suite on the machine has its own.
    mark = f"313.{os.getpid()}"
    person.shell("a.sh", discover="{}", idle=f"$ sleep {mark} & sleep {mark}")
    person.run("== turn\ntext: done\n", EVOLVE_HOOK_TIMEOUT="3000")
    assert not having("sleep", mark)


WRONG = [
    ('{"tools": [{"name": "t", "parameters": {"x": {"type": "strin"}}}]}', "unknown type 'strin'"),
    ('{"tools": ["t"]}', "expected an object"),
    ('{"tools": [{"description": "d"}]}', "it has no name"),
    ('{"tools": [{"name": "t"}, {"name": "t"}]}', "defined twice"),
    ('{"tools": [{"name": "t", "permission": {"arg": "x"}}]}', "no parameter of it"),
    ('{"test": "../evil"}', "bare name of a file in tests/"),
    ('{"name": "evolve", "tools": [{"name": "datetime"}]}', "evolve has a tool of that name"),
]


@pytest.mark.slow
def test_a_registration_that_is_wrong_is_said_and_the_rest_of_it_stays(person):
    for number, (answer, _) in enumerate(WRONG):
        given = json.loads(answer)
        given["tools"] = [*given.get("tools", []), {"name": "sound"}]
        person.shell(f"r{number}.sh", discover=json.dumps(given))
    ran = person.run("== turn\ntext: done\n")
    for number, (_, said) in enumerate(WRONG):
        assert [line for line in ran.log if f"r{number}.sh" in line and said in line], said
    offered = [name for name in person.tools() if name.endswith("_sound")]
    assert sorted(offered) == sorted([*(f"r{number}_sound" for number in range(6)), "evolve_sound"])


@pytest.mark.slow
def test_a_script_that_answers_nonsense_where_text_is_expected_breaks_nothing(person):
    nonsense = '{"system": {"a": 1}, "continue": null, "user": 7, "modified": "x.md", "notify": 3,'
    nonsense += ' "tools": 7, "name": ["x"], "test": 3}'
    person.shell("a.sh", **dict.fromkeys(HOOKS, nonsense))
    person.shell("good.sh", discover='{"tools": [{"name": "t"}]}', execute_tool="{}")
    person.run(STORY)
    assert person.systems()[0] == ['{"a":1}']


def test_the_workspace_does_not_exist_or_is_a_file(person):
    ran = person.run("== turn\ntext: done\n", INSTAR_WORKSPACE=str(person.folder / "none"))
    assert ran.logged("evolve=inactive", "there is no workspace at")
    ran = person.run("== turn\ntext: done\n", INSTAR_WORKSPACE=str(person.story))
    assert ran.logged("evolve=inactive", "there is no workspace at")
