"""Good candidates: changes that a person would be glad of, and that reach no more than before."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.campaign.bot import FILE, Bot, ToolOf, with_tool, word


class Good(msgspec.Struct, frozen=True):
    """One change: the tool that makes it with its arguments, and the script and prompts as they are after it."""

    kind: str
    tool: str
    args: Mapping[str, Any]
    bot: Bot
    prompts: Mapping[str, str]


def good(chance: random.Random, kind: str, bot: Bot, prompts: Mapping[str, str]) -> Good:
    """Make a good candidate of this kind."""
    if kind in _PROMPTS:
        return _prompt(chance, kind, bot, prompts)
    if kind == "a new script":
        return Good(kind, "hook_write", _script(chance), bot, prompts)
    after = _HOOKS[kind](chance, bot)
    args: dict[str, Any] = {"hook": FILE, "content": after.text()}
    tool = "hook_write"
    if kind in ("comments", "another text") and chance.random() < 0.7:
        tool, args = "hook_edit", _edit(bot.text(), after.text())
    if kind == "a prediction that holds":
        args["expect"] = chance.choice(_EXPECTED)
    return Good(kind, tool, args, after, prompts)


def kinds(create: bool) -> list[str]:
    """Return the kinds of good candidates; `create`: also new files."""
    return [kind for kind in (*_HOOKS, *_PROMPTS, "a new script") if create or kind not in _NEW]


def deck(chance: random.Random, create: bool) -> Iterator[str]:
    """Yield kinds for ever, each as often as any other."""
    while True:
        found = kinds(create)
        chance.shuffle(found)
        yield from found


def _refactor(chance: random.Random, bot: Bot) -> Bot:
    first, second, third = (f"{word(chance)}_{number}" for number in range(3))
    return replace(bot, words=(first, second, third))


def _new_tool(chance: random.Random, bot: Bot) -> Bot:
    name = f"t_{word(chance)}"
    asks = ("what",) if chance.random() < 0.5 else ()
    return with_tool(bot, name, ToolOf(f"Say {name}.", ("what",), asks, f'{name!r} + str(args.get("what"))'))


def _without_tool(chance: random.Random, bot: Bot) -> Bot:
    """Take one away that asked nothing."""
    own = [name for name, tool in bot.tools.items() if name.startswith("t_") and not tool.asks]
    return with_tool(bot, chance.choice(own), None) if own else _new_tool(chance, bot)


def _described(chance: random.Random, bot: Bot) -> Bot:
    name = chance.choice(list(bot.tools))
    return with_tool(
        bot, name, replace(bot.tools[name], says=f"{bot.tools[name].says.split(' (')[0]} ({word(chance)})")
    )


def _asks_more(chance: random.Random, bot: Bot) -> Bot:
    for name, tool in bot.tools.items():
        left = [one for one in tool.parameters if one not in tool.asks]
        if left and name != "add":
            return with_tool(bot, name, replace(tool, asks=(*tool.asks, left[0])))
    return _new_tool(chance, bot)


def _manifest(chance: random.Random, bot: Bot) -> Bot:
    """State a manifest, or lower what the stated one grants."""
    now = bot.manifest
    if now is None:
        limits = {
            "cpu": chance.randint(40, 60),
            "processes": chance.randint(64, 128),
            "memory": 2 << 30,
            "seconds": 4,
        }
        given = {
            "env": [],
            "network": chance.random() < 0.5,
            "write": ["state", "notes/a"],
            "limits": limits,
            "actions": ["send"],
        }
        return replace(bot, manifest=given)
    limits = dict(now["limits"])
    way = chance.choice(("limits", "write", "network"))
    if way == "write" and "state" in now["write"]:
        return replace(bot, manifest={**now, "write": ["state/deep", "notes/a"]})
    if way == "network" and now["network"]:
        return replace(bot, manifest={**now, "network": False})
    return replace(
        bot,
        manifest={**now, "limits": {**limits, "cpu": limits["cpu"] - 1, "memory": limits["memory"] - 4096}},
    )


_HOOKS: dict[str, Callable[[random.Random, Bot], Bot]] = {
    "refactoring": _refactor,
    "another shape": lambda chance, bot: replace(bot, style=bot.style ^ chance.choice((1, 2, 3, 4, 5, 6, 7))),
    "comments": lambda chance, bot: replace(bot, comments=(*bot.comments[-3:], f"About {word(chance)}.")),
    "a new tool": _new_tool,
    "a tool less": _without_tool,
    "another description": _described,
    "another text": lambda chance, bot: replace(bot, extra=f"Say {word(chance)}."),
    "another answer": lambda chance, bot: replace(bot, more=f"Go on with {word(chance)}."),
    "asks about more": _asks_more,
    "less authority": _manifest,
    "a prediction that holds": lambda chance, bot: replace(bot, comments=(*bot.comments[-3:], word(chance))),
    "a new hook": lambda chance, bot: replace(
        bot,
        hooks=bot.hooks if "compacting" in bot.hooks else (*bot.hooks, "compacting"),
        extra=f"Mind {word(chance)}.",
    ),
}
_PROMPTS = ("a prompt's line", "a prompt's edit", "a new prompt")
_NEW = ("a new prompt", "a new script")
_EXPECTED = (
    {"hook": "idle", "field": "failures", "at_most": 0, "within": {"calls": 2}},
    {"hook": "tool_before", "field": "ms", "at_most": 60_000, "within": {"calls": 1}},
    {
        "hook": "tool_before",
        "field": "answer.notify.0.type",
        "equals": "tool",
        "within": {"calls": 2, "minutes": 60},
    },
)


def _prompt(chance: random.Random, kind: str, bot: Bot, prompts: Mapping[str, str]) -> Good:
    file = chance.choice(("chat.md", "compaction.md"))
    line = f"Mind the {word(chance)}."
    if kind == "a prompt's edit":
        before = prompts[file].splitlines()[0]
        after = {**prompts, file: prompts[file].replace(before, f"{before.split(' -- ')[0]} -- {line}", 1)}
        args = {"prompt": file, "oldString": before, "newString": after[file].splitlines()[0]}
        return Good(kind, "prompt_edit", args, bot, after)
    if kind == "a new prompt":
        file, text = f"p-{word(chance)}.md", f"{line}\n"
    else:
        lines = prompts[file].splitlines()
        text = "\n".join([*lines[:2], *lines[2:][-4:], line]) + "\n"
    return Good(kind, "prompt_write", {"prompt": file, "content": text}, bot, {**prompts, file: text})


def _script(chance: random.Random) -> dict[str, Any]:
    name = f"s_{word(chance)}"
    said = f'{{"name": "{name}", "test": "{name}_test.sh", "tools": [{{"name": "hi", "description": "Greet."}}]}}'
    code = f'#!/bin/sh\ncase "$1" in\ndiscover) echo \'{said}\' ;;\nexecute_tool) echo \'{{"result": "hi"}}\' ;;\n'
    code += '*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;\nesac\n'
    test = f'#!/bin/sh\ncd "$(dirname "$0")/.."\necho "{{}}" | hooks/{name}.sh execute_tool | grep -q hi\n'
    return {"hook": f"{name}.sh", "content": code, "test": test}


def _edit(before: str, after: str) -> dict[str, Any]:
    """The smallest run of lines that differs, as an edit; its old text stands in the file once."""
    old, new = before.splitlines(), after.splitlines()
    first = next(n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    last = next(
        n for n, pair in enumerate(zip(reversed(old), reversed(new), strict=False)) if pair[0] != pair[1]
    )
    first -= 1
    return {
        "hook": FILE,
        "oldString": "\n".join(old[first : len(old) - last]) + "\n",
        "newString": "\n".join(new[first : len(new) - last]) + "\n",
    }
