"""A person's own tools in files: what the model is told of them, and what it reads, in opencode and in instar."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.programs import installed
from tests.conformance import hosts
from tests.conformance.hosts import Host
from tests.conformance.model import Model
from tests.conformance.play import Play, Scenario

FILES = {
    "tool/shout.ts": """
        import { tool } from "@opencode-ai/plugin"
        import { loud } from "../lib/loud"
        export default tool({
          description: "Says it loudly.",
          args: { text: tool.schema.string().min(1).describe("what"), times: tool.schema.number().optional() },
          async execute(args, context) {
            context.metadata({ title: "shouting" })
            return { title: "Shout", output: loud(args.text) + typeof args.times, metadata: { agent: context.agent } }
          },
        })
        export const softly = tool({
          description: "Says it softly.",
          args: {},
          execute: async (args, context) => `${context.directory} ${context.sessionID.slice(0, 4)}`,
        })
        export const helper = (text: string) => text
        export const half = { args: {}, execute: async () => "never" }
    """,
    "tools/plain.js": """
        export const first = { description: "First.", args: { n: { type: "number" } },
          execute: async ({ n }) => `${n}` }
        export const second = { description: "Second.", args: {}, async execute() { throw new Error("no luck") } }
    """,
    "tool/bad.mjs": "export default { description: 'x', args: {}, execute: async () => 'x' }",
    "tool/bad.tsx": "export default { description: 'x', args: {}, execute: async () => 'x' }",
    "tool/deep/bad.ts": "export default { description: 'x', args: {}, execute: async () => 'x' }",
    "lib/loud.ts": "export const loud = (text: string): string => text.toUpperCase()",
}
CALLS = [
    ("shout", {"text": "hi"}),
    ("shout_softly", {}),
    ("plain_first", {"n": 7}),
    ("plain_second", {}),
]
NAMES = ("shout", "plain", "bad")


def _play(play: Play) -> None:
    for name, text in FILES.items():
        path = play.directory / ".opencode" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    play.prompt()


def _offered(play: Play) -> Any:
    """What the model was told of the tools that come from files."""
    functions = [one["function"] for one in play.requests()[0].body["tools"]]
    return {
        one["name"]: [one["description"], _schema(one["parameters"])]
        for one in functions
        if one["name"].startswith(NAMES)
    }


def _schema(given: Any) -> Any:
    return {
        name: one
        for name, one in given.items()
        if name not in ("$schema", "additionalProperties") and one != []
    }


def test_tool_files_are_the_same_tools_in_both(tmp_path: Path) -> None:
    theirs = _traced(tmp_path / "opencode", hosts.opencode)
    ours = _traced(tmp_path / "instar", hosts.instar)
    assert ours == theirs


def _traced(folder: Path, start: Callable[[Path, Path], Host]) -> Any:
    folder.mkdir()
    answers = [{"tools": [call]} for call in CALLS]
    scenario = Scenario("order_a", [*answers, {"text": "Done."}], _play, _offered)
    model = Model({scenario.name: scenario.answers})
    host = start(folder, installed())
    try:
        return scenario.trace(host, model, {"*": ".ts"})
    finally:
        host.close()
        model.close()
