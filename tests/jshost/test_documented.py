"""Plugins as opencode's documentation and its source print them: each runs as it stands.

A line is put in the place of a comment, to see that it is reached; TypeScript's types and all else stay.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from instar.testing import Machine, results

Write = Callable[..., Path]

HOOKS = """
import type { Plugin } from "@opencode-ai/plugin"

export const MyPlugin: Plugin = async ({ project, client, $, directory, worktree }) => {
  return {
    event: async ({ event }) => {
      // Handle event by checking event.type
      if (event.type === "session.idle") {
        // Handle specific event
      }
    },
    "tool.execute.before": async (input, output) => {
      // Hook before tool execution
    },
    "tool.execute.after": async (input, output) => {
      // Hook after tool execution
    }
  }
}
"""
STATE = """
const myPlugin: Plugin = async (input, options) => {
  let lastHudMessageId = null  // closure state persists across hook invocations

  return {
    "experimental.chat.messages.transform": async (_input, output) => {
      // This closure can read/write lastHudMessageId
      // State persists for the lifetime of the plugin (until process restart)
    }
  }
}
"""
IDLE = """
const myPlugin: Plugin = async (input) => {
  return {
    event: async ({ event }) => {
      if (event.type === "session.idle") {
        // Session is idle, safe to do cleanup or post-processing
      }
      if (event.type === "session.status" && event.properties.status.type === "busy") {
        // Session started processing
      }
    }
  }
}
"""
NOTE = (
    'import { appendFileSync } from "node:fs"\nconst note = (text) => appendFileSync("notes", text + "\\n")\n'
)
CALL = '== turn\ntool: bash {"command": "echo hi"}\n\n== turn\ntext: done\n'
TYPES = 'import type { Plugin } from "@opencode-ai/plugin"\n'


async def noted(house: Machine) -> list[str]:
    """What the plugin wrote down in one turn with a call of bash."""
    house.says(CALL)
    door = await house.open()
    assert door.runtime.notices == []
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == ["hi\n"]
    await door.runtime.close()
    return (house.folder / "notes").read_text().splitlines()


def filled(source: str, places: dict[str, str]) -> str:
    for comment, line in places.items():
        assert f"// {comment}" in source
        source = source.replace(f"// {comment}", line)
    return NOTE + source


@pytest.mark.slow
async def test_the_documentations_plugin_runs_as_it_is_printed(house: Machine, write: Write) -> None:
    places = {
        "Handle specific event": "note(`idle ${event.properties.sessionID.slice(0, 4)}`)",
        "Hook before tool execution": "note(`before ${input.tool} ${output.args.command}`)",
        "Hook after tool execution": "note(`after ${input.tool} ${output.output.trim()}`)",
    }
    write(filled(HOOKS, places), "mine.ts")
    assert await noted(house) == ["before bash echo hi", "after bash hi", "idle ses_"]


@pytest.mark.slow
async def test_a_plugins_own_variables_last_as_long_as_the_plugin(house: Machine, write: Write) -> None:
    count = "lastHudMessageId = (lastHudMessageId ?? 0) + 1; "
    count += "note(`call ${lastHudMessageId} of ${output.messages.length}`)"
    places = {"This closure can read/write lastHudMessageId": count}
    write(TYPES + filled(STATE, places) + "export default myPlugin\n", "mine.ts")
    assert await noted(house) == ["call 1 of 1", "call 2 of 2"]


@pytest.mark.slow
async def test_a_plugin_hears_that_a_session_is_busy_and_then_idle(house: Machine, write: Write) -> None:
    places = {
        "Session is idle, safe to do cleanup or post-processing": 'note("idle")',
        "Session started processing": 'note("busy")',
    }
    write(TYPES + filled(IDLE, places) + "export default myPlugin\n", "mine.ts")
    heard = await noted(house)
    assert set(heard[:-1]) == {"busy"}
    assert heard[-1] == "idle"


@pytest.mark.slow
async def test_the_configurations_that_are_printed_find_their_plugins(house: Machine, write: Write) -> None:
    near = write(filled(HOOKS, {"Hook before tool execution": 'note("near")'}), "my-plugin.ts", "plugins")
    far = near.with_name("far.ts")
    far.write_text(
        NOTE + "export default async (input, options) => ({ event: async () => {}, "
        '"tool.execute.before": async () => note(options.option1) })'
    )
    (house.folder / "opencode.json").write_text(
        f"""
{{
  "plugin": [
    "./plugins/my-plugin.ts",
    ["{far.as_uri()}", {{ "option1": "value1" }}]
  ]
}}
"""
    )
    assert await noted(house) == ["near", "value1"]
