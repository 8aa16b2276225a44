"""What the settings of a folder that the person has not trusted may say.

The law (design section 5): such a layer may tighten permissions and name providers with their own literal
key. It may not run code, use ``{env:…}`` or ``{file:…}``, or redirect a provider whose key comes from
outside. What is not known to be harmless is left out, so that a key of tomorrow is not let in by accident.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from instar.config.fault import dotted
from instar.config.layer import Layer, has_reference, merge
from instar.message import Rule
from instar.permission import from_config
from instar.wire import Plain

_HARMLESS: Final = frozenset(
    (
        *("$schema", "model", "small_model", "default_agent", "username", "compaction"),
        *("context_window_tokens", "theme", "keybinds", "layout", "logLevel", "watcher", "tool_output"),
    )
)
_AGENT_HARMLESS: Final = frozenset(
    (
        *("name", "description", "prompt", "mode", "hidden", "color"),
        *("model", "variant", "temperature", "top_p", "steps", "maxSteps"),
    )
)
_PROVIDER_HARMLESS: Final = frozenset(("name", "id", "npm", "whitelist", "blacklist"))
_OPTION_HARMLESS: Final = frozenset(("timeout", "headerTimeout", "chunkTimeout", "setCacheKey", "script"))
_MODEL_REDIRECT: Final = frozenset(("headers", "options", "provider"))
_CODE: Final = frozenset(["plugin", "mcp", "formatter", "lsp", "hooks", "evolve", "shell", "experimental"])
_SHELL: Final = re.compile(r"!`")
_LONGEST: Final = 300
"""Characters of two patterns together up to which they are compared: a project must not slow us down."""


def restrict(layer: Layer, others: Iterable[Layer]) -> tuple[Layer, list[str]]:
    """Return `layer` as far as it may be heard, and a sentence for each thing that was left out.

    `others` are the layers that hold without it. A trusted layer, and one that is no project's, comes
    back as it is. The data must have passed `Config.from_data`.
    """
    if layer.trusted or layer.scope != "project":
        return layer, []
    held = merge(other for other in others if other is not layer).data
    return _Restriction(layer, held).result()


class _Restriction:
    """The work on one layer: what is kept, and what was dropped."""

    def __init__(self, layer: Layer, held: Plain) -> None:
        self._layer = layer
        self._held = held
        self._dropped: list[str] = []

    def result(self) -> tuple[Layer, list[str]]:
        kept = {}
        for key, value in self._layer.data.items():
            value = self._key(key, self._without_references(value, (key,)))
            if value is not None:
                kept[key] = value
        return Layer(self._layer.origin, self._layer.scope, kept, trusted=False), self._dropped

    def _drop(self, path: tuple[str, ...], why: str) -> None:
        self._dropped.append(f"{self._layer.origin}: {dotted(path)} was left out: an untrusted project {why}")

    def _without_references(self, value: Any, path: tuple[str, ...]) -> Any:
        """`value` without what asks for the environment or a file; None when that is all of it."""
        if isinstance(value, dict):
            found = {key: self._without_references(item, (*path, key)) for key, item in value.items()}
            return {key: item for key, item in found.items() if item is not None or value[key] is None}
        if has_reference(value):
            self._drop(path, "may not use {env:…} or {file:…}")
            return None
        return value

    def _key(self, key: str, value: Any) -> Any:
        readers: dict[str, Callable[[Any], Any]] = {
            "permission": lambda block: self._permission(block, ("permission",), None) or None,
            "tools": lambda tools: self._tools(tools, ("tools",)),
            "agent": lambda agents: self._each(agents, ("agent",), self._agent),
            "provider": lambda providers: self._each(providers, ("provider",), self._provider),
            "command": lambda commands: self._each(commands, ("command",), self._command),
            "instructions": self._instructions,
        }
        if value is None or key in _HARMLESS:
            return value
        if key in readers:
            return readers[key](value)
        self._drop((key,), "may not run code" if key in _CODE else "may not change this")
        return None

    def _each(self, block: Any, path: tuple[str, ...], one: Callable[[str, Plain], Plain | None]) -> Plain:
        found = {name: one(name, entry) for name, entry in block.items() if isinstance(entry, dict)}
        return {name: entry for name, entry in found.items() if entry is not None}

    # -- permissions --------------------------------------------------------------------------------

    def _permission(self, block: Any, path: tuple[str, ...], agent: str | None) -> Plain:
        """The rules of `block` that only tighten, in a form that plain merging adds to what is held."""
        held = self._held if agent is None else _map(_map(self._held.get("agent")).get(agent))
        base = _spread(held.get("permission"))
        before = [] if agent is None else [*from_config(_spread(self._held.get("permission")))]
        before += _tool_denials(self._held) + _tool_denials(held)
        kept: Plain = {}
        for name, entries in _spread(block).items():
            for pattern, action in entries.items():
                trial = {**kept, name: {**kept.get(name, {}), pattern: action}}
                if action == "deny" or (action == "ask" and not _loosens(base, trial, name, pattern, before)):
                    kept = trial
                else:
                    self._drop(
                        (*path, name, pattern), f"may only tighten permissions, and this says {action}"
                    )
        return _additions(held.get("permission"), kept)

    def _tools(self, tools: Any, path: tuple[str, ...]) -> Plain:
        for name, on in tools.items():
            if on is not False:
                self._drop((*path, name), "may only take tools away")
        return {name: on for name, on in tools.items() if on is False}

    def _agent(self, name: str, block: Plain) -> Plain:
        path = ("agent", name)
        kept: Plain = {}
        for key, value in block.items():
            if key == "permission":
                kept[key] = self._permission(value, (*path, key), name)
            elif key == "tools":
                kept[key] = self._tools(value, (*path, key))
            elif key in _AGENT_HARMLESS or (key == "disable" and value is True):
                kept[key] = value
            else:
                self._drop((*path, key), "may not change this of an agent")
        return kept

    # -- providers ----------------------------------------------------------------------------------

    def _provider(self, name: str, block: Plain) -> Plain:
        path = ("provider", name)
        free = self._own_key(name, block)
        kept: Plain = {}
        for key, value in block.items():
            if key == "options" and isinstance(value, dict):
                kept[key] = self._options(value, (*path, key), free)
            elif key == "models" and isinstance(value, dict):
                kept[key] = {
                    model: self._model(entry, (*path, key, model), free) for model, entry in value.items()
                }
            elif key == "npm" and not str(value).startswith("@ai-sdk/"):
                self._drop((*path, key), "may not name code to load")
            elif key in _PROVIDER_HARMLESS or (free and key in ("api", "headers")):
                kept[key] = value
            else:
                self._drop((*path, key), "may not redirect a provider whose key comes from outside")
        return kept

    def _own_key(self, name: str, block: Plain) -> bool:
        """Whether the layer brings the provider's key itself, and nothing of the person's travels with it."""
        key = _map(block.get("options")).get("apiKey")
        mine = _map(_map(self._held.get("provider")).get(name))
        travels = mine.get("headers") or _map(mine.get("options")).get("headers")
        return isinstance(key, str) and bool(key.strip()) and not travels

    def _options(self, options: Plain, path: tuple[str, ...], free: bool) -> Plain:
        for key in options:
            if key == "record":
                self._drop((*path, key), "may not name a file to write")
            elif not free and key not in _OPTION_HARMLESS:
                self._drop((*path, key), "may not redirect a provider whose key comes from outside")
        return {
            key: value
            for key, value in options.items()
            if key != "record" and (free or key in _OPTION_HARMLESS)
        }

    def _model(self, model: Any, path: tuple[str, ...], free: bool) -> Any:
        if not isinstance(model, dict):
            return model
        kept = {}
        for key, value in model.items():
            if key == "options" and isinstance(value, dict):
                kept[key] = self._options(value, (*path, key), free)
            elif free or key not in _MODEL_REDIRECT:
                kept[key] = value
            else:
                self._drop((*path, key), "may not redirect a provider whose key comes from outside")
        return kept

    # -- texts --------------------------------------------------------------------------------------

    def _command(self, name: str, command: Plain) -> Plain | None:
        if _SHELL.search(str(command.get("template", ""))):
            self._drop(("command", name), "may not run code: its template runs a shell command")
            return None
        return command

    def _instructions(self, entries: Any) -> list[Any] | None:
        """Instructions from inside the project only: a path elsewhere would show the model a private file."""
        kept = [entry for entry in entries if _inside(str(entry))]
        for entry in entries:
            if entry not in kept:
                self._drop(("instructions", str(entry)), "may only name files of its own folder")
        return kept or None


def _inside(entry: str) -> bool:
    return (
        not entry.startswith(("/", "~", "$")) and "://" not in entry and ".." not in re.split(r"[/\\]", entry)
    )


def _map(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}


def _spread(block: Any) -> dict[str, dict[str, Any]]:
    """A permission block with every short form written out: permission → pattern → action."""
    if block is None:
        return {}
    if isinstance(block, str):
        block = {"*": block}
    return {name: dict(value) if isinstance(value, dict) else {"*": value} for name, value in block.items()}


def _additions(held: Any, kept: Plain) -> Plain:
    """`kept` in a form that plain merging adds to the block `held`.

    Merging puts a map in the place of a short form, so each short form is repeated as its map's first entry.
    """
    base = _spread(held)
    short = {name: entries for name, entries in base.items() if not isinstance(_map(held).get(name), dict)}
    names = [name for name in {**base, **kept} if name in kept or (kept and isinstance(held, str))]
    return {name: {**short.get(name, {}), **kept.get(name, {})} for name in names}


def _tool_denials(data: Plain) -> list[Rule]:
    return [
        Rule(permission=permission, pattern="*", action="deny")
        for name, on in _map(data.get("tools")).items()
        if on is False
        for permission in (("edit",) if name in ("write", "edit", "patch") else (name,))
    ]


def _loosens(base: Plain, over: Plain, name: str, pattern: str, before: list[Rule]) -> bool:
    """Whether the `ask` at `name` and `pattern` would come after a `deny` that covers some of the same.

    The last matching rule decides, so such an `ask` would take the place of the `deny`.
    """
    merged = {key: {**base.get(key, {}), **over.get(key, {})} for key in [*base, *over]}
    if base.get(name, {}).get(pattern) == "deny":
        return True
    (ask,) = from_config({name: {pattern: "ask"}})
    earlier: list[Rule] = [*before]
    for key, entries in merged.items():
        for text, action in entries.items():
            if (key, text) == (name, pattern):
                return any(rule.action == "deny" and _meet_rules(rule, ask) for rule in earlier)
            earlier += from_config({key: {text: action}})
    return True


def _meet_rules(one: Rule, other: Rule) -> bool:
    return _same_tool(one.permission, other.permission) and _meet(one.pattern, other.pattern)


def _same_tool(one: str, other: str) -> bool:
    """Whether two permission names can mean one tool: ``persona_hook_write`` is ``evolve_hook_write``."""
    tails = [name.split("_", 1)[1] for name in (one, other) if "_" in name]
    alias = any(one.endswith(f"_{tail}") and other.endswith(f"_{tail}") for tail in tails)
    return alias or _meet(one, other)


def _meet(one: str, other: str) -> bool:
    """Whether some text fits both wildcard patterns; True for patterns too long to tell."""
    if len(one) + len(other) > _LONGEST:
        return True
    one, other = _plain_stars(one), _plain_stars(other)
    todo, seen = [(0, 0)], set()
    while todo:
        at = todo.pop()
        if at == (len(one), len(other)):
            return True
        if at not in seen:
            seen.add(at)
            todo += _moves(one[at[0] : at[0] + 1], other[at[1] : at[1] + 1], at)
    return False


def _moves(one: str, other: str, at: tuple[int, int]) -> list[tuple[int, int]]:
    """Where two patterns can stand after the next character of a common text, or with a star left behind."""
    left, right = at
    moves = [(left + 1, right)] if one == "*" or (one and other == "*") else []
    if other == "*" or (other and one == "*"):
        moves.append((left, right + 1))
    if one and other and "*" not in (one, other) and (one == other or "?" in (one, other)):
        moves.append((left + 1, right + 1))
    return moves


def _plain_stars(pattern: str) -> str:
    pattern = pattern.replace("\\", "/")
    return f"{pattern[:-2]}*" if pattern.endswith(" *") else pattern
