from typing import Any

import jsonschema
import pytest

from instar.tool.registry import builtin

# The reference's section 3.7: names, types, and (marked !) what is required.
OPENCODE = {
    "bash": {"command!": "string", "timeout": "integer", "workdir": "string"},
    "edit": {"filePath!": "string", "oldString!": "string", "newString!": "string", "replaceAll": "boolean"},
    "glob": {"pattern!": "string", "path": "string"},
    "grep": {"pattern!": "string", "path": "string", "include": "string"},
    "read": {"filePath!": "string", "offset": "integer", "limit": "integer"},
    "write": {"content!": "string", "filePath!": "string"},
}


@pytest.mark.parametrize("name", OPENCODE)
def test_a_tools_parameters_are_opencodes(name: str) -> None:
    parameters = builtin()[name].parameters
    required = parameters["required"]
    found = {
        f"{key}{'!' if key in required else ''}": value["type"]
        for key, value in parameters["properties"].items()
    }
    assert found == OPENCODE[name]
    jsonschema.Draft202012Validator.check_schema(parameters)


@pytest.mark.parametrize(("name", "tool"), builtin().items())
def test_every_tool_and_property_is_described(name: str, tool: Any) -> None:
    assert len(tool.description) > 100
    assert all(len(value["description"]) > 10 for value in tool.parameters["properties"].values()), name


def test_the_built_in_tools_are_these_six() -> None:
    assert set(builtin()) == set(OPENCODE)


def test_writing_tools_are_taken_away_by_the_rule_on_edit() -> None:
    assert {name for name, tool in builtin().items() if tool.permission == "edit"} == {"edit", "write"}
