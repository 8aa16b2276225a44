import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from instar.tool import registry
from instar.tool.registry import builtin, offered

# opencode 1.18's tools as it sends them, without what says nothing about an argument.
OPENCODE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "opencode-tools.json").read_text("utf-8")
)
OURS = {"apply_patch", "background", "invalid", "list", "todoread"}


ALL = builtin(
    subagents=[("general", "Does anything.")],
    skills={"pdf": ("Work on PDFs.", "Use the program.")},
    questions=True,
)


def bare(schema: Any) -> Any:
    """A schema without its words for people, and without what ours say beyond opencode's."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: bare(one) for name, one in value.items()} if key == "properties" else bare(value)
        for key, value in schema.items()
        if key not in ("description", "minLength")
    }


@pytest.mark.parametrize("name", OPENCODE)
def test_a_tools_parameters_are_opencodes(name: str) -> None:
    ours = bare(ALL[name].parameters)
    if name == "task":
        del ours["properties"]["background"]  # instar's own
    assert ours == OPENCODE[name]
    jsonschema.Draft202012Validator.check_schema(ALL[name].parameters)


@pytest.mark.parametrize(("name", "tool"), ALL.items())
def test_every_tool_and_property_is_described(name: str, tool: Any) -> None:
    assert len(tool.description) > 100
    assert all(len(value["description"]) > 10 for value in tool.parameters["properties"].values()), name


def test_the_built_in_tools_are_opencodes_and_ours() -> None:
    assert set(ALL) == set(OPENCODE) | OURS


def test_tools_that_nobody_could_use_are_left_out() -> None:
    assert set(ALL) - set(builtin()) == {"task", "skill", "question"}


def test_writing_tools_are_taken_away_by_the_rule_on_edit() -> None:
    assert {name for name, tool in ALL.items() if tool.permission == "edit"} == {
        "edit",
        "write",
        "apply_patch",
    }


@pytest.mark.parametrize(
    ("model", "patches"),
    [
        ("gpt-5", True),
        ("gpt-5.1-codex", True),
        ("openai/GPT-5-mini", True),
        ("gpt-4o", False),
        ("gpt-4.1", False),
        ("gpt-oss-120b", False),
        ("gpt-3.5-turbo", False),
        ("claude-sonnet-4-6", False),
        ("x", False),
    ],
)
def test_gpt_models_patch_files_and_the_others_edit_them(model: str, patches: bool) -> None:
    found = set(offered(ALL, model))
    assert "invalid" not in found
    assert ("apply_patch" in found, "edit" in found, "write" in found) == (patches, not patches, not patches)
    assert registry.is_patcher(model) is patches


def test_task_and_skill_name_what_there_is_to_choose_from() -> None:
    assert ALL["task"].description.endswith("The sub-agents:\n- general: Does anything.")
    assert ALL["skill"].description.endswith("The skills:\n- pdf: Work on PDFs.")
