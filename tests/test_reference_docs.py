"""The reference tables in docs say what the code has. ``python tests/test_reference_docs.py`` writes them."""

import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.campaign.faults import EXPECTED, PLACES

from instar.cli.program import table as commands
from instar.plugin import Ask
from instar.plugins.files.formatter import FORMATTERS
from instar.plugins.files.servers import SERVERS
from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.config import kind_of
from instar.settings.known import WITHOUT_EFFECT
from instar.settings.paths import Paths
from instar.settings.permission import DEFAULTS
from instar.settings.rules import ALLOWED, DENIALS
from instar.tool.registry import builtin

DOCS = Path(__file__).parents[1] / "docs"
RUN = "python tests/test_reference_docs.py"

SAMPLES: dict[str, list[dict[str, Any]]] = {
    "bash": [{"command": "git push origin main"}, {"command": "cd src && make test | tail -3"}],
    "background": [{"action": "start", "command": "npm run dev"}],
    "read": [{"filePath": "src/app.py"}, {"filePath": "/etc/hosts"}],
    "list": [{"path": "src"}],
    "glob": [{"pattern": "**/*.py"}],
    "grep": [{"pattern": "retry"}],
    "edit": [{"filePath": "src/app.py", "oldString": "a", "newString": "b"}],
    "write": [{"filePath": "notes.md", "content": "x"}],
    "apply_patch": [
        {
            "patchText": "*** Begin Patch\n*** Add File: notes.md\n+x\n*** Delete File: src/app.py\n*** End Patch"
        }
    ],
    "webfetch": [{"url": "https://example.com/a", "format": "text"}],
    "todowrite": [{"todos": []}],
    "todoread": [{}],
    "task": [{"description": "d", "prompt": "p", "subagent_type": "explore"}],
    "skill": [{"name": "release"}],
    "question": [{"questions": []}],
}
"""Calls of each tool whose permissions the page shows."""


class Where(msgspec.Struct):
    """The part of a `ToolContext` that a tool's permissions look at."""

    directory: Path
    worktree: Path

    @property
    def process(self) -> Children:
        """Children of a person whose home lies elsewhere: nothing here is guarded."""
        environment = {"HOME": str(self.directory.parent / "nobody")}
        return Children(Processes(), Paths.from_environment(environment), environment)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a settings file, as `instar config schema` prints it."""
    command = [sys.executable, "-m", "instar", "config", "schema"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def keys() -> str:
    """The tables of the top-level keys."""
    properties = {name: field for name, field in schema()["properties"].items() if name != "$schema"}
    rows = []
    for name, field in properties.items():
        default = field.get("default")
        is_shown = default is not None and not isinstance(default, list | dict)
        meaning = field["description"] + (" No effect." if name in WITHOUT_EFFECT else "")
        rows.append([f"`{name}`", value(name, field), json.dumps(default) if is_shown else "", meaning])
    return "\n".join(
        [
            table(["key", "value", "default", "meaning"], rows),
            "Taken, so that a file of opencode's with them is no mistake, and without an effect; `instar config check`"
            " names those that a file has:\n",
            table(
                ["key", "why, or what to do"], [[f"`{name}`", why] for name, why in WITHOUT_EFFECT.items()]
            ),
        ]
    )


def fields(kind: str) -> dict[str, tuple[str, str]]:
    """What each field of a block (``AgentConfig``) holds, and what it means."""
    properties = schema()["$defs"][kind]["properties"]
    return {
        name: (value(name, field), field["description"])
        for name, field in properties.items()
        if name != "maxSteps"
    }


def value(name: str, field: dict[str, Any]) -> str:
    """What a setting holds, in words."""
    return "`allow`, `ask`, `deny`, or a map of them" if name == "permission" else kind(field)


def kind(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return "map"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(kind(arm) for arm in field["anyOf"] if arm.get("type") != "null")
    if field["type"] == "array":
        return f"list: {kind(field['items'])}" if field.get("items") else "[name, options]"
    if field["type"] == "object":
        inner = field.get("additionalProperties")
        return f"map: {kind(inner)}" if isinstance(inner, dict) and inner and "$ref" not in inner else "map"
    return "true or false" if field["type"] == "boolean" else str(field["type"])


def block(name: str) -> str:
    return table(
        ["field", "value", "meaning"], [[f"`{field}`", *about] for field, about in fields(name).items()]
    )


def section(name: str) -> str:
    struct = kind_of(name)
    rows = [
        [f"`{field}`", value, f"`{json.dumps(default)}`", meaning]
        for (field, (value, meaning)), default in zip(
            fields(struct.__name__).items(), msgspec.structs.astuple(struct()), strict=True
        )
    ]
    return table(["field", "value", "default", "meaning"], rows)


def defaults() -> str:
    rows = [[f"`{rule.permission}`", f"`{rule.pattern}`", rule.action] for rule in DEFAULTS]
    return table(["permission", "pattern", "action"], rows)


def agents() -> str:
    rows = [
        [f"`{name}`", ", ".join(f"`{rule.permission}`" for rule in denials), _only(name)]
        for name, denials in DENIALS.items()
    ]
    return table(["agent", "denied", "allowed of the rest"], rows)


def _only(agent: str) -> str:
    return ", ".join(f"`{name}`" for name in ALLOWED[agent]) if agent in ALLOWED else ""


def tools() -> str:
    """What each tool asks for, found by asking it, in a project that is a real folder."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "src").mkdir()
        (root / "src" / "app.py").write_text("a\n")
        found = builtin(
            subagents=[("explore", "description")],
            skills={"release": ("description", "release")},
            questions=True,
        )
        del found["invalid"]
        rows = [
            [
                f"`{name}`",
                shown(call),
                *map("<br>".join, zip(*map(asked, asks(found[name], name, call, root)), strict=True)),
            ]
            for name in found
            for call in SAMPLES[name]
        ]
        return table(["tool", "called with", "asks for", "pattern", "`always` remembers"], rows).replace(
            str(root), "/project"
        )


def asks(tool: Any, name: str, call: dict[str, Any], root: Path) -> Sequence[Ask]:
    if tool.permissions is None:
        return [Ask(tool.permission or name)]
    return list(tool.permissions(call, Where(root, root)))


def asked(ask: Ask) -> tuple[str, str, str]:
    return code([ask.permission]), code(ask.patterns), code(ask.always)


def code(texts: Sequence[str]) -> str:
    return ", ".join(f"`{text}`".replace("|", "\\|") for text in texts) or "nothing"


def shown(call: dict[str, Any]) -> str:
    """The argument that a rule looks at, of a call's."""
    named = [call[name] for name in LOOKED_AT if name in call]
    return code(named[:1]) if named else "a patch of two files" if "patchText" in call else ""


def faults() -> str:
    rows = [[kind, *outcomes] for kind, outcomes in EXPECTED.items()]
    return table(["failure", *PLACES], rows)


def formatters() -> str:
    return table(
        ["formatter", "files", "command"],
        [
            [f"`{name}`", code(one.extensions), f"`{' '.join(one.command)}`"]
            for name, one in FORMATTERS.items()
        ],
    )


def servers() -> str:
    return table(
        ["server", "files", "program"],
        [
            [f"`{name}`", code(one.extensions), code([words[0] for words in one.commands])]
            for name, one in SERVERS.items()
        ],
    )


LOOKED_AT = ("command", "filePath", "pattern", "url", "subagent_type", "name", "path")


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("guides/agents.md", "fields"): lambda: block("AgentConfig"),
    ("guides/commands.md", "fields"): lambda: block("CommandConfig"),
    ("reference/configuration.md", "keys"): keys,
    ("reference/guards.md", "shield"): lambda: section("shield"),
    ("reference/guards.md", "evolve"): lambda: section("evolve"),
    ("reference/guards.md", "mcp_server"): lambda: section("mcp_server"),
    ("reference/guards.md", "storage"): lambda: section("storage"),
    ("guides/formatters-and-lsp.md", "formatters"): formatters,
    ("guides/formatters-and-lsp.md", "servers"): servers,
    ("concepts/reliability.md", "faults"): faults,
    ("reference/permissions.md", "defaults"): defaults,
    ("reference/permissions.md", "agents"): agents,
    ("reference/permissions.md", "tools"): tools,
}


def split(page: str, part: str) -> tuple[str, str, str]:
    """The page before a generated part, the part, the page after it."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"<!-- begin {part}: {RUN} -->\n(.*?)<!-- end -->\n", text, re.DOTALL)
    assert found, f"docs/{page} has no part {part}"
    return text[: found.start(1)], found[1], text[found.end(1) :]


@pytest.mark.parametrize(("page", "part"), PARTS, ids=" ".join)
def test_the_reference_in_the_docs_is_what_the_code_has(page: str, part: str) -> None:
    assert split(page, part)[1] == PARTS[page, part](), f"run: {RUN}"


def test_every_built_in_tool_stands_in_the_table_of_permissions() -> None:
    offered = builtin(subagents=[("a", "b")], skills={"release": ("description", "release")}, questions=True)
    assert set(SAMPLES) == set(offered) - {"invalid"}


def test_every_command_stands_in_the_table_of_commands() -> None:
    page = (DOCS / "reference/cli.md").read_text("utf-8")
    rows = re.findall(r"^\| (`instar [^|]+)", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(?:instar )?([\w-]+)", row)}
    assert set(commands()) <= named


if __name__ == "__main__":
    for (page, part), make in PARTS.items():
        before, _, after = split(page, part)
        (DOCS / page).write_text(before + make() + after, "utf-8")
