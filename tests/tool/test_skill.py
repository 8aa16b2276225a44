from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import skill

TOOL = skill.tool(
    {
        "pdf": ("Work\n  on PDFs.", lambda session_id: f"Use the program of {session_id}.\n"),
        "sql": ("Write SQL.", lambda session_id: "Mind the joins."),
    }
)


async def test_a_skill_is_loaded_by_its_name(ctx: Any, call: Any) -> None:
    result = await call(TOOL, ctx, name="pdf")
    assert result.output == f'<skill name="pdf">\nUse the program of {ctx.session_id}.\n</skill>'
    assert result.title == "Skill pdf"


async def test_a_skill_that_is_not_there_is_named_with_those_that_are(ctx: Any, call: Any) -> None:
    with pytest.raises(ToolFailure, match="There is no skill 'pfd'; there are: pdf, sql"):
        await call(TOOL, ctx, name="pfd")


def test_the_model_reads_each_skills_name_and_description_on_one_line() -> None:
    assert TOOL.description.endswith("The skills:\n- pdf: Work on PDFs.\n- sql: Write SQL.")


def test_loading_needs_skill_on_its_name(ctx: Any) -> None:
    (ask,) = skill.permissions({"name": "pdf"}, ctx)
    assert (ask.permission, list(ask.patterns), list(ask.always)) == ("skill", ["pdf"], ["pdf"])
