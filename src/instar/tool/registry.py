"""The built-in tools by name, and which of them a model is offered."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import msgspec

from instar.plugin.tool import Tool
from instar.tool import (
    apply_patch,
    background,
    bash,
    edit,
    glob,
    grep,
    invalid,
    listing,
    question,
    read,
    skill,
    task,
    todo,
    webfetch,
    write,
)

T = TypeVar("T")


def builtin(
    *,
    subagents: Sequence[tuple[str, str]] = (),
    skills: Mapping[str, tuple[str, Callable[[str], str]]] = MappingProxyType({}),
    questions: bool = False,
    options: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Tool]:
    """Return the built-in tools, in the order in which the model is shown them.

    `task` is there when there are `subagents` (name, description), `skill` when there are `skills` (description, and
    what gives a session the text, by name), `question` when somebody can answer. `options` are those of the setting
    ``permission_options``.
    """
    found = {
        invalid.NAME: invalid.TOOL,
        "bash": bash.TOOL,
        "background": background.TOOL,
        "read": read.TOOL,
        "list": listing.TOOL,
        "glob": glob.TOOL,
        "grep": grep.TOOL,
        "edit": edit.TOOL,
        "write": write.TOOL,
        "apply_patch": apply_patch.TOOL,
        "webfetch": webfetch.TOOL,
        "todowrite": todo.TODOWRITE,
        "todoread": todo.TODOREAD,
    }
    if options:
        for name, module in (("bash", bash), ("background", background)):
            judging = partial(module.permissions, options=options)
            found[name] = msgspec.structs.replace(module.TOOL, permissions=judging)
    if subagents:
        found["task"] = task.tool(subagents)
    if skills:
        found["skill"] = skill.tool(skills)
    if questions:
        found["question"] = question.TOOL
    return found


def offered(tools: Mapping[str, T], model_id: str) -> dict[str, T]:
    """Return the tools for a model: GPT models patch files, the others edit and write them (opencode 1.18).

    `invalid` is never offered.
    """
    patches = is_patcher(model_id)
    left_out = {invalid.NAME, *(("edit", "write") if patches else ("apply_patch",))}
    return {name: tool for name, tool in tools.items() if name not in left_out}


def is_patcher(model_id: str) -> bool:
    """True if a model was trained on patches: ``gpt-5`` and later, not ``gpt-4…`` nor ``gpt-oss…``."""
    name = model_id.rpartition("/")[2].lower()
    return re.match(r"gpt-(?!4|oss|3)", name) is not None
