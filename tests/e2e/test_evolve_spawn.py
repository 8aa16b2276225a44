"""The hook protocol of Python scripts that are started plainly and that are run warm: a session cannot tell.

The tests of the protocol run through both.
"""

import asyncio
import json
import logging
import os
import re
import sys
from typing import Any

import pytest

BUSY = 60.0
TIMEOUT = 3000
"""Milliseconds that a hook may take."""

SCRIPT = f"""#!{os.path.realpath(sys.executable)}
import json, os, sys, time
given = json.load(sys.stdin)
name, hook, answer = os.path.basename(sys.argv[0]), sys.argv[1], given.get("answer")
with open("/proc/self/stat") as file:
    parent = int(file.read().rsplit(")", 1)[1].split()[1])
with open("CALLS", "a") as file:
    print(json.dumps({{"who": [name, hook], "parent": parent, "given": given}}), file=file)
if hook == "discover":
    print(json.dumps({{"tools": [{{"name": "t", "parameters": {{"arg": "words"}}}}]}} if name == "a.py" else {{}}))
elif hook == "mutate_request":
    print(json.dumps({{"system": [name + " one"]}}), json.dumps({{"system": [name + " two"]}}), sep="\\n")
elif hook == "execute_tool":
    if given["args"]["arg"] == "fail":
        print("to the log", file=sys.stderr)
        sys.exit("it cannot")
    print(json.dumps({{"result": given["args"]["arg"].upper()}}))
elif hook == "compacting":
    print(json.dumps({{"prompt": name + " sums up " + str(len(given["history"]))}}))
elif hook == "recover":
    print(json.dumps({{"system": ["mend"], "user": "mend " + given["failed_hook"]}}))
elif hook == "idle" and answer == "one":
    print(json.dumps({{"continue": name + " goes on"}}))
elif hook == "idle" and name == "b.py" and answer == "raise":
    raise ValueError("grüße")
elif hook == "idle" and name == "b.py" and answer == "exit":
    print("half", end="")
    sys.exit(3)
elif hook == "idle" and name == "b.py" and answer == "die":
    print("soon", flush=True)
    os.kill(os.getpid(), 9)
elif hook == "idle" and name == "b.py" and answer == "prattle":
    print("[1, 2]")
elif hook == "idle" and name == "b.py" and answer == "hang":
    print(json.dumps({{"log": "going to sleep"}}), flush=True)
    time.sleep(60)
elif hook == "tool_before":
    print(json.dumps({{"log": "before " + given["tool"]}}))
    print("a complaint", file=sys.stderr)
elif hook == "idle" and name == "a.py" and answer == "forget":
    print(json.dumps({{"error": "unknown hook: idle"}}))
    sys.exit(1)
else:
    print("{{}}")
"""
"""One program under two names: what it does is in the hook and in what the model answered."""

FAILURES = {
    "raise": ("exit code 1", "ValueError: grüße"),
    "exit": ("exit code 3", "half"),
    "die": ("signal 9 (SIGKILL)", "soon"),
    "prattle": ("should be a JSON object, not a list", "[1, 2]"),
    "hang": (f"hook_timeout ({TIMEOUT} ms)", "going to sleep"),
}

STORY = """\
== when "^warm$"
text: warm
== when "^(raise|exit|die|prattle|hang|forget)$"
text: {{match.0}}
== when "^mend"
text: mended
== when "goes on"
text: two
== when "^use"
reasoning: let me see
text: I look.
tool: a_t {"arg": "words"}
tool: evolve_datetime {}
== when "WORDS"
text: one
== when "^spoil"
tool: a_t {"arg": "fail"}
== compaction
text: short
"""


class Talk:
    """A person with an open session whose scripts are run the way that is wanted."""

    def __init__(self, person: Any, door: Any, session: str) -> None:
        self.person, self.door, self.session = person, door, session

    def calls(self, since: int = 0) -> list[dict[str, Any]]:
        """The calls of scripts, in order."""
        path = self.person.root / "CALLS"
        return [json.loads(line) for line in path.read_text().splitlines()][since:]

    async def ask(self, text: str) -> list[dict[str, Any]]:
        """Say something, and return the calls that it made."""
        before = len(self.calls())
        await self.door.ask(self.session, text)
        return self.calls(before)


@pytest.fixture(params=["plain", "warm"])
async def talk(person, request, caplog):
    """A session; where scripts are to be run warm, they are by now."""
    caplog.set_level(logging.INFO, "instar.evolve")
    # Behind the shield the parent is a launcher either way.
    person.config(evolve={"own_scripts": "free"})
    for name in ("a.py", "b.py"):
        person.script(name, SCRIPT)
    person.tell(STORY)
    person.environment |= {"EVOLVE_SPAWN": request.param, "EVOLVE_HOOK_TIMEOUT": str(TIMEOUT)}
    door = await person.open()
    made = Talk(person, door, await door.session())
    async with asyncio.timeout(BUSY):
        while {call["parent"] for call in await made.ask("warm")} & {os.getpid()}:
            if request.param == "plain":
                break
    caplog.clear()
    began = len(made.calls())
    yield made
    # That it is not the same way twice.
    assert {call["parent"] == os.getpid() for call in made.calls(began)} == {request.param == "plain"}


def logged(caplog, *words: str) -> list[str]:
    """The log's lines that hold these words, without how long a call took."""
    lines = [re.sub(r" ms=\d+", "", record.getMessage()) for record in caplog.records]
    return [line for line in lines if all(word in line for word in words)]


@pytest.mark.slow
async def test_hooks_are_called_in_order_and_given_the_same(talk, caplog):
    made = await talk.ask("use it")
    both = ("a.py", "b.py")
    tool = [(name, hook) for name in both for hook in ("tool_before", "tool_after")]
    step = [(name, "observe_message") for name in both]
    end = [*step, *((name, "idle") for name in both)]
    called = [tuple(call["who"]) for call in made]
    # The two tools of the first answer run at the same time.
    first = called[: called.index(step[0])]
    assert sorted(first) == sorted([*tool, *tool, ("a.py", "execute_tool")])
    assert called[len(first) :] == [*step, *end, *end]
    assert talk.person.results()[0] == "WORDS"
    assert talk.person.said()[-2:] == ["use it", "a.py goes on\nb.py goes on"]
    assert {tuple(system) for system in talk.person.systems()} == {
        ("a.py one", "a.py two", "b.py one", "b.py two")
    }
    (given,) = [call["given"] for call in made if call["who"][1] == "execute_tool"]
    assert (given["hook"], given["tool"], given["args"]) == ("execute_tool", "t", {"arg": "words"})
    seen = [call["given"] for call in made if call["who"] == ["b.py", "observe_message"]]
    assert [(one["thinking"], one["answer"]) for one in seen] == [
        ("let me see", "I look."),
        ("", "one"),
        ("", "two"),
    ]
    assert logged(caplog, "failed=") == []
    for name in both:
        assert len(logged(caplog, f"script={name}", "hook=tool_before", 'log="before a_t"')) == 1
        assert len(logged(caplog, f"script={name}", "hook=tool_before", "stderr=", "a complaint")) == 2


@pytest.mark.slow
async def test_failures_are_logged_and_recovered(talk, caplog):
    for how, (why, printed) in FAILURES.items():
        caplog.clear()
        made = await talk.ask(how)
        assert [call["given"]["failed_hook"] for call in made if call["who"] == ["b.py", "recover"]] == [
            "idle"
        ]
        assert [call for call in made if call["who"] == ["a.py", "recover"]] == []
        (line,) = logged(caplog, "failed=")
        assert "script=b.py hook=idle" in line
        assert why in line
        assert printed in line
        own, mending = talk.person.systems()[-2:]
        assert mending == ["mend", *own]
        assert talk.person.said()[-1] == "mend idle"


@pytest.mark.slow
async def test_a_tool_that_fails_is_an_error_for_the_model(talk, caplog):
    await talk.ask("spoil it")
    (result,) = talk.person.results()
    assert "a.py execute_tool" in result
    assert "it cannot" in result
    assert len(logged(caplog, "script=a.py hook=execute_tool", "failed=", "exit code 1", "to the log")) == 1
    assert talk.person.said()[-1] == "mend execute_tool"


@pytest.mark.slow
async def test_a_hook_that_a_script_does_not_know_is_not_asked_again(talk, caplog):
    assert ["a.py", "idle"] in [call["who"] for call in await talk.ask("forget")]
    assert ["a.py", "idle"] not in [call["who"] for call in await talk.ask("forget")]
    assert logged(caplog, "failed=") == []


@pytest.mark.slow
async def test_compacting_gives_the_prompt_of_the_scripts(talk):
    before = len(talk.calls())
    await talk.door.runtime.session.summarize(talk.session)
    made = talk.calls(before)
    assert [call["who"] for call in made] == [["a.py", "compacting"], ["b.py", "compacting"]]
    assert made[0]["given"] == made[1]["given"]
    counted = len(made[0]["given"]["history"])
    text = talk.person.requests("compaction")[0]["messages"][-1]["content"]
    assert text.startswith(f"a.py sums up {counted}\nb.py sums up {counted}")
