"""The reference in docs/reference/tools.md says what the code has. ``python tests/tool/test_docs.py`` writes it."""

from pathlib import Path
from typing import Any

from instar.plugin import Tool
from instar.tool.registry import builtin

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tools.md"
BEGIN, END = "<!-- begin: python tests/tool/test_docs.py -->\n", "<!-- end -->\n"
PERMISSIONS = {
    "background": "`bash` (start)",
    "webfetch": "`webfetch`, `webfetch_private`",
}


def reference() -> str:
    """One table of the tools, one of each tool's parameters."""
    tools = builtin(
        subagents=[("name", "description")], skills={"name": ("description", "name")}, questions=True
    )
    del tools["invalid"]
    lines = ["| tool | permission | what it does |", "|---|---|---|"]
    for name, tool in tools.items():
        permission = PERMISSIONS.get(name, f"`{tool.permission or name}`")
        lines.append(f"| `{name}` | {permission} | {tool.description.splitlines()[0]} |")
    for name, tool in tools.items():
        lines += ["", f"### {name}", "", *parameters(tool)]
    return "\n".join(lines) + "\n"


def parameters(tool: Tool) -> list[str]:
    required = tool.parameters.get("required", [])
    if not tool.parameters["properties"]:
        return ["No parameters."]
    lines = ["| parameter | type | what |", "|---|---|---|"]
    for name, schema in tool.parameters["properties"].items():
        mark = "" if name in required else " (optional)"
        lines.append(f"| `{name}`{mark} | {kind(schema)} | {schema['description']} |")
    return lines


def kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {kind(schema['items'])}"
    if schema["type"] == "object" and schema.get("properties"):
        return "{" + ", ".join(f"`{name}`" for name in schema["properties"]) + "}"
    return str(schema["type"])


def split() -> tuple[str, str, str]:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    found, _, after = rest.partition(END)
    return before, found, after


def test_the_reference_of_the_tools_is_what_the_code_has() -> None:
    assert split()[1] == reference(), "run: python tests/tool/test_docs.py"


if __name__ == "__main__":
    start, _, finish = split()
    PAGE.write_text(start + BEGIN + reference() + END + finish, "utf-8")
