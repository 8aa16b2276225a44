"""What the settings of a folder that the person has not trusted may say.

The law (design section 5): such a layer may tighten permissions and name providers with their own literal
key. It may not run code, use ``{env:…}`` or ``{file:…}``, or redirect a provider whose key comes from
outside. What is not known to be harmless is left out, so that a key of tomorrow is not let in by accident.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from instar.config.builtin import DENIALS
from instar.config.fault import dotted
from instar.config.layer import Layer, has_reference, merge
from instar.config.section import SECTIONS
from instar.config.tightening import Placed, deny, only_tightens
from instar.message import Rule
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
_OPTION_HARMLESS: Final = frozenset(("timeout", "headerTimeout", "chunkTimeout", "setCacheKey"))
_OPTION_NEVER: Final = {
    "record": "may not name a file to write",
    # A script's tool calls are the folder's own commands.
    "script": "may not run code: a script's tool calls are made",
}
_MODEL_REDIRECT: Final = frozenset(("headers", "options", "provider"))
_CODE: Final = frozenset(["plugin", "mcp", "formatter", "lsp", "hooks", "shell", "experimental"])
_SHELL: Final = re.compile(r"!`")
_MOST: Final = 200
"""Rules of one block that are looked at: a project must not slow us down."""


def restrict(layer: Layer, others: Iterable[Layer]) -> tuple[Layer, list[str]]:
    """Return `layer` as far as it may be heard, and a sentence for each thing that was left out.

    `others` are the layers that hold without it, in order; where `layer` itself stands among them, that is its
    place, else it comes last of its scope. A trusted layer, and one that is no project's, comes back as it
    is. The data must have passed `Config.from_data`.
    """
    if layer.trusted or layer.scope != "project":
        return layer, []
    return _Restriction(layer, list(others)).result()


class _Restriction:
    """The work on one layer: what is kept, and what was dropped."""

    def __init__(self, layer: Layer, others: list[Layer]) -> None:
        self._layer = layer
        at = next((index for index, other in enumerate(others) if other is layer), len(others))
        self._before, self._after = others[:at], others[at + 1 :]
        self._held = self._with({})
        self._mine = merge(other for other in others if other.trusted).data
        self._dropped: list[str] = []

    def result(self) -> tuple[Layer, list[str]]:
        kept = {}
        for key, value in self._layer.data.items():
            if not self._is_judged(key):
                value = self._key(key, self._without_references(value, (key,)))
            if value is not None:
                kept[key] = value
        return msgspec.structs.replace(self._layer, data=kept), self._dropped

    def _is_judged(self, key: str) -> bool:
        """Whether a block that guards is what `instar.config.guarding` made of it."""
        vouched = self._layer.vouched
        return key in SECTIONS and vouched is not None and vouched.sections.get(key) == self._layer.data[key]

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
            "permission": lambda block: self._tighter(block, ("permission",)) or None,
            "tools": lambda tools: self._tighter(tools, ("tools",)) or None,
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

    def _with(self, data: Plain) -> Plain:
        """All settings as they would be with `data` in the layer's place."""
        trial = Layer(self._layer.origin, self._layer.scope, data, trusted=False)
        return merge([*self._before, trial, *self._after]).data

    def _tighter(self, block: Any, path: tuple[str, ...]) -> Plain:
        """The rules of a ``permission`` or ``tools`` block that only tighten, fit for plain merging."""
        tools = path[-1] == "tools"
        before = _rules(self._held, path)
        denials = _denials(self._held, path)
        held = _at(self._held, path)
        kept: Plain = {}
        tried = 0

        def tightens(rules: Plain) -> bool:
            after = self._with(_nested(path, _additions(held, rules, tools)))
            return only_tightens(before, _rules(after, path), denials)

        for name, entries in _spread(block, tools).items():
            for pattern, action in entries.items():
                trial = {**kept, name: {**kept.get(name, {}), pattern: action}}
                tried += action != "allow"
                if action != "allow" and tried <= _MOST and tightens(trial):
                    kept = trial
                elif tools:
                    self._drop((*path, name), "may only take tools away")
                else:
                    self._drop(
                        (*path, name, pattern), f"may only tighten permissions, and this says {action}"
                    )
        return _additions(held, kept, tools)

    def _agent(self, name: str, block: Plain) -> Plain:
        path = ("agent", name)
        kept: Plain = {}
        for key, value in block.items():
            if key in ("permission", "tools"):
                tighter = self._tighter(value, (*path, key))
                # An empty map would take the place of a short form ("ask") that the person wrote.
                kept |= {key: tighter} if tighter else {}
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
        """Whether the layer brings the provider's key itself, and the person has no such provider.

        Where the person has one, its key may stand in a later layer, and headers and options travel along.
        """
        key = _map(block.get("options")).get("apiKey")
        mine = _map(self._mine.get("provider")).get(name)
        return isinstance(key, str) and bool(key.strip()) and mine is None

    def _options(self, options: Plain, path: tuple[str, ...], free: bool) -> Plain:
        for key in options:
            if key in _OPTION_NEVER:
                self._drop((*path, key), _OPTION_NEVER[key])
            elif not free and key not in _OPTION_HARMLESS:
                self._drop((*path, key), "may not redirect a provider whose key comes from outside")
        return {
            key: value
            for key, value in options.items()
            if key not in _OPTION_NEVER and (free or key in _OPTION_HARMLESS)
        }

    def _model(self, model: Any, path: tuple[str, ...], free: bool) -> Any:
        if not isinstance(model, dict):
            return model
        kept = {}
        for key, value in model.items():
            if key == "options" and isinstance(value, dict):
                kept[key] = self._options(value, (*path, key), free)
            elif key == "cost" and not free:
                self._drop((*path, key), "may not set prices: limits count with them")
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


def _at(data: Plain, path: tuple[str, ...]) -> Any:
    for key in path[:-1]:
        data = _map(data.get(key))
    return data.get(path[-1])


def _nested(path: tuple[str, ...], value: Any) -> Plain:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _spread(block: Any, tools: bool) -> dict[str, dict[str, Any]]:
    """A block with every short form written out: permission → pattern → action."""
    if block is None:
        return {}
    if isinstance(block, str):
        block = {"*": block}
    if tools:
        return {name: {"*": "allow" if on else "deny"} for name, on in block.items()}
    return {name: dict(value) if isinstance(value, dict) else {"*": value} for name, value in block.items()}


def _additions(held: Any, kept: Plain, tools: bool) -> Plain:
    """`kept` in a form that plain merging adds to the block `held`.

    Merging puts a map in the place of a short form, so each short form is repeated as its map's first entry.
    """
    if tools:
        return dict.fromkeys(kept, False)
    base = _spread(held, tools)
    short = {name: entries for name, entries in base.items() if not isinstance(_map(held).get(name), dict)}
    names = [name for name in {**base, **kept} if name in kept or (kept and isinstance(held, str))]
    return {name: {**short.get(name, {}), **kept.get(name, {})} for name in names}


def _rules(data: Plain, path: tuple[str, ...]) -> Placed:
    spread = _spread(_at(data, path), path[-1] == "tools")
    return {
        (name, pattern): action for name, entries in spread.items() for pattern, action in entries.items()
    }


def _denials(data: Plain, path: tuple[str, ...]) -> list[Rule]:
    """What other blocks deny that a rule at `path` could come after."""
    agent = path[:-1]
    places = [("permission",), ("tools",), *([(*agent, "tools"), (*agent, "permission")] if agent else [])]
    found = [entry for place in places if place != path for entry in _rules(data, place).items()]
    built_in = DENIALS.get(agent[1], ()) if agent else ()
    return [*built_in, *(deny(key) for key, action in found if action == "deny")]
