"""`instar stats` of an agent that changes itself, and of a plugin that breaks the prompt cache."""

import asyncio
import json
import sys

import pytest

from instar.testing import Machine

pytest_plugins = ["tests.turn"]

SCRIPT = """#!/bin/sh
case $1 in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": []}';;
*) echo '{"error": "unknown hook: '$1'"}'; exit 1;;
esac
"""


@pytest.mark.slow
def test_what_the_steps_used_that_changed_the_agent_is_told(person):
    person.script("bot.sh", SCRIPT)
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    person.commit_all()
    good, bad = f"{SCRIPT}# better\n", "#!/bin/sh\nexit 3\n"
    story = "".join(
        f"== turn\ntool: evolve_hook_write {json.dumps({'file': 'bot.sh', 'content': content})}\nusage: {usage}\n"
        for content, usage in ((good, "input=1000 output=10"), (bad, "input=500 output=5"))
    )
    person.run(f"{story}== turn\ntext: done\nusage: input=7 output=7\n")
    found = json.loads(person.instar("stats", "--json").stdout)
    assert found["total"]["tokens"]["input"] == 1507
    told = {one["kind"]: one["tokens"]["input"] for one in found["evolution"]}
    assert told == {"installed": 1000, "refused": 500}
    text = person.instar("stats").stdout
    assert "evolution  1 step with changes installed: 1,010 tokens, $0.00" in text
    for row in json.loads(person.instar("session", "list", "--json").stdout):
        person.instar("session", "delete", row["id"])
    now = json.loads(person.instar("stats", "--json").stdout)["evolution"]
    assert {one["kind"]: (one["tokens"]["input"], one["unknown"]) for one in now} == {
        "installed": (1000, 0),
        "refused": (500, 0),
    }


@pytest.mark.slow
async def test_a_plugin_that_changes_what_a_prompt_cache_holds_is_named(house: Machine) -> None:
    house.plugin(
        """
        from itertools import count
        async def server(input, options):
            number = count()
            async def system(given, output):
                output.system.append(f"now is {next(number)}")
            return {"experimental.chat.system.transform": system}
    """,
        name="clock",
    )
    house.says('\n    == when ""\n    text: hello\n')
    door = await house.open()
    session = await door.session()
    for _ in range(3):
        await door.ask(session, "hi")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "instar", "stats", "--json"),
        cwd=house.folder,
        env=house.environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await child.communicate()
    (told,) = json.loads(out)["cache_breaks"]
    assert (told["plugin"], told["block"], told["times"]) == ("clock", "system", 2)
    assert told["lost"] > 0
