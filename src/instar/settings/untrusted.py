"""What the settings of a folder that the person has not trusted may say.

Such a layer may tighten permissions and name providers with their own literal key. It may not run code, use
``{env:…}`` or ``{file:…}``, or redirect a provider whose key comes from outside. What is not known to be harmless is
left out, so that a key of tomorrow is not let in by accident.

Whoever answers the conversation reads it and makes the tool calls: a server that a stranger's folder named would run
what it likes, without any code of the folder's own. So the layer may name a provider, but only the person chooses it:
with ``--model``, or in settings of their own.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from instar.message import Rule
from instar.settings.config import SECTIONS, Config, dotted, value_at
from instar.settings.layer import Layer, as_map, has_reference, merge
from instar.settings.permission import from_config
from instar.settings.rules import AGENTS, ALLOWED, DENIALS
from instar.wire import Plain

_SEVERITY: Final = {"allow": 0, "ask": 1, "deny": 2}
_LONGEST_PATTERNS: Final = 300
"""Characters of two patterns together up to which they are compared: a project must not slow us down."""

Placed = dict[tuple[str, str], str]
"""The rules of a block in order: permission and pattern to action."""


def deny(key: tuple[str, str]) -> Rule:
    """Return the denial of a permission and pattern; ``write`` and ``patch`` mean ``edit``."""
    name = "edit" if key[0] in ("write", "patch") else key[0]
    (rule,) = from_config({name: {key[1]: "deny"}})
    return rule


def only_tightens(before: Placed, after: Placed, denials: Iterable[Rule]) -> bool:
    """Whether the rules alone show that no decision by `after` is milder than the one by `before`.

    The last matching rule decides. So: the rules of `before` all stand in `after`, in their order and none
    milder; a new rule denies, or asks where no denial (of `before`, or of `denials`) stands earlier that
    covers some of the same. May say no where the truth is yes.
    """
    if [key for key in after if key in before] != list(before):
        return False
    earlier = list(denials)
    for key, action in after.items():
        if key in before and _SEVERITY[action] < _SEVERITY[before[key]]:
            return False
        if key not in before and action == "ask" and any(_meet_rules(rule, deny(key)) for rule in earlier):
            return False
        if key not in before and action == "allow":
            return False
        if before.get(key) == "deny":
            earlier.append(deny(key))
    return True


def _meet_rules(one: Rule, other: Rule) -> bool:
    """Whether one call can fit both rules. Two names can mean one tool: ``me_hook_write`` is ``evolve_hook_write``."""
    names = (one.permission, other.permission)
    tails = [f"_{name.split('_', 1)[1]}" for name in names if "_" in name]
    alias = any(all(name.endswith(tail) for name in names) for tail in tails)
    return (alias or patterns_meet(*names)) and patterns_meet(one.pattern, other.pattern)


def patterns_meet(one: str, other: str) -> bool:
    """Return whether some text fits both wildcard patterns; True for patterns too long to tell."""
    if len(one) + len(other) > _LONGEST_PATTERNS:
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


def foreign(layers: Iterable[Layer]) -> frozenset[str]:
    """Return the ids of the providers to which an untrusted project among `layers` gives an address."""
    return frozenset(
        name
        for layer in layers
        if not layer.trusted and layer.scope == "project"
        for name, block in as_map(layer.data.get("provider")).items()
        if _has_address(as_map(block))
    )


def without_choice(layer: Layer, providers: Iterable[str]) -> tuple[Layer, list[str]]:
    """Return an untrusted project's `layer` without its choices of models of `providers`, and a sentence for each.

    A trusted layer, and one that is no project's, comes back as it is.
    """
    if layer.trusted or layer.scope != "project":
        return layer, []
    names, dropped = frozenset(providers), list[str]()

    def kept(block: Plain, path: tuple[str, ...], keys: Iterable[str]) -> Plain:
        models = {key: block[key] for key in keys if isinstance(block.get(key), str)}
        found = {key: model for key, model in models.items() if model.partition("/")[0] in names}
        for key, model in found.items():
            dropped.append(
                f"{layer.origin}: {dotted((*path, key))} was left out: an untrusted project may not send the "
                f"conversation to a server of its own (you may: --model {model})"
            )
        return {key: value for key, value in block.items() if key not in found}

    data = kept(layer.data, (), ("model", "small_model"))
    if "agent" in data:
        agents = as_map(data["agent"])
        data["agent"] = {name: kept(block, ("agent", name), ("model",)) for name, block in agents.items()}
    return msgspec.structs.replace(layer, data=data), dropped


def _has_address(block: Plain) -> bool:
    if block.get("api") or as_map(block.get("options")).get("baseURL"):
        return True
    return any(as_map(model).get("provider") for model in as_map(block.get("models")).values())


_Path = tuple[str, ...]
_MOST: Final = 200
"""Rules of one block that are looked at: a project must not slow us down."""


def restrict(layer: Layer, others: Iterable[Layer]) -> tuple[Layer, list[str]]:
    """Return the permitted part of `layer`, and a sentence for each thing that was left out.

    `others` are the layers that hold without it, in order; where `layer` itself stands among them, that is its
    place, else it comes last of its scope. A trusted layer, and one that is no project's, comes back as it
    is. The data must have passed `Config.from_data`.
    """
    if layer.trusted or layer.scope != "project":
        return layer, []
    return _Restriction(layer, list(others)).result()


class _WithOwnKey(msgspec.Struct, frozen=True):
    """Permitted if the layer brings the provider's key itself; else left out for the reason `otherwise`."""

    otherwise: str


class _Restriction:
    """The work on one layer: what is permitted, and what was dropped."""

    def __init__(self, layer: Layer, others: list[Layer]) -> None:
        self._layer = layer
        at = next((index for index, other in enumerate(others) if other is layer), len(others))
        self._before, self._after = others[:at], others[at + 1 :]
        self._held = self._with({})
        self._mine = merge(other for other in others if other.trusted).data
        self._dropped: list[str] = []

    def result(self) -> tuple[Layer, list[str]]:
        heard: Plain = {}
        for key, value in self._layer.data.items():
            if key in SECTIONS:  # `instar.settings.guarding` left of it what guards more
                heard[key] = value
            elif (found := self._without_references(value, (key,))) is not None:
                heard |= self._heard({key: found}, (), _LAW)
        return msgspec.structs.replace(self._layer, data=heard), self._dropped

    def _heard(self, block: Plain, path: _Path, law: Mapping[str, Any]) -> Plain:
        """The entries of `block` that `law`, the part of `_LAW` for `path`, lets through."""
        heard: Plain = {}
        for key, value in block.items():
            rule, place = law.get(key, law["*"]), (*path, key)
            if isinstance(rule, _WithOwnKey):
                rule = _HEARD if self._brings_key(path[1]) else rule.otherwise
            if rule == _HEARD:
                heard[key] = value
            elif isinstance(rule, str):
                self.drop(place, rule)
            elif isinstance(rule, Mapping):
                heard |= {key: self._heard(value, place, rule)} if isinstance(value, dict) else {}
            elif (found := rule(self, place, value)) is not None:
                heard[key] = found
        return heard

    def drop(self, path: _Path, why: str) -> None:
        """Note that what stands at `path` is left out."""
        self._dropped.append(f"{self._layer.origin}: {dotted(path)} was left out: an untrusted project {why}")

    def is_mine(self, path: _Path) -> bool:
        """Whether the person's own settings say something there."""
        return value_at(self._mine, path) is not None

    def _brings_key(self, name: str) -> bool:
        """Whether the layer brings the key of a provider itself, and the person has no such provider.

        Where the person has one, its key may stand in a later layer, and headers and options travel along.
        """
        block = as_map(as_map(self._layer.data.get("provider")).get(name))
        key = as_map(block.get("options")).get("apiKey")
        is_literal = isinstance(key, str) and bool(key.strip()) and not has_reference(key)
        return is_literal and as_map(self._mine.get("provider")).get(name) is None

    def _without_references(self, value: Any, path: _Path) -> Any:
        """`value` without what asks for the environment or a file; None when that is all of it."""
        if isinstance(value, dict):
            found = {key: self._without_references(item, (*path, key)) for key, item in value.items()}
            return {key: item for key, item in found.items() if item is not None or value[key] is None}
        if has_reference(value):
            self.drop(path, "may not use {env:…} or {file:…}")
            return None
        return value

    def _with(self, data: Plain) -> Plain:
        """All settings as they would be with `data` in the layer's place."""
        trial = Layer(self._layer.origin, self._layer.scope, data, trusted=False)
        return merge([*self._before, trial, *self._after]).data

    def tighter(self, path: _Path, block: Any) -> Plain | None:
        """Return the rules of a ``permission`` or ``tools`` block that only tighten, fit for plain merging.

        None for no rule: an empty map would take the place of a short form ("ask") that the person wrote.
        """
        tools = path[-1] == "tools"
        before = _rules(self._held, path)
        denials = _denials(self._held, path)
        held = value_at(self._held, path)
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
                    self.drop((*path, name), "may only take tools away")
                else:
                    self.drop((*path, name, pattern), f"may only tighten permissions, and this says {action}")
        return _additions(held, kept, tools) or None


def _switched_off(layer: _Restriction, path: _Path, value: Any) -> Any:
    """An agent may be switched off, never on."""
    if value is True:
        return value
    layer.drop(path, _NOT_OF_AN_AGENT)
    return None


def _prompt(layer: _Restriction, path: _Path, value: Any) -> Any:
    """The prompt of an agent of the folder's own; what a person calls `build` stays what they know."""
    if path[1] not in AGENTS and not layer.is_mine(path[:2]):
        return value
    layer.drop(path, "may not replace the prompt of this agent (an agent of another name may have one)")
    return None


def _sdk_package(layer: _Restriction, path: _Path, value: Any) -> Any:
    """The package of a provider is one of the AI SDK's."""
    if str(value).startswith("@ai-sdk/"):
        return value
    layer.drop(path, "may not name code to load")
    return None


def _without_shell(layer: _Restriction, path: _Path, command: Any) -> Any:
    """A command's template runs nothing."""
    if not isinstance(command, dict):
        return None
    if "!`" in str(command.get("template", "")):
        layer.drop(path, "may not run code: its template runs a shell command")
        return None
    return command


def _own_files(layer: _Restriction, path: _Path, entries: Any) -> Any:
    """Instructions from inside the project only: a path elsewhere would show the model a private file."""
    kept = [entry for entry in entries if _inside(str(entry))]
    for entry in entries:
        if entry not in kept:
            layer.drop((*path, str(entry)), "may only name files of its own folder")
    return kept or None


_HEARD: Final = "heard"
_NOT_OF_AN_AGENT: Final = "may not change this of an agent"
_REDIRECT: Final = "may not redirect a provider whose key comes from outside"

_AGENT: Final[Mapping[str, Any]] = {
    "permission": _Restriction.tighter,
    "tools": _Restriction.tighter,
    "disable": _switched_off,
    "prompt": _prompt,
    **dict.fromkeys(("name", "description", "mode", "hidden", "color"), _HEARD),
    **dict.fromkeys(("model", "variant", "temperature", "top_p", "steps", "maxSteps"), _HEARD),
    "*": _NOT_OF_AN_AGENT,
}
_OPTIONS: Final[Mapping[str, Any]] = {
    "record": "may not name a file to write",
    # A script's tool calls are the folder's own commands.
    "script": "may not run code: a script's tool calls are made",
    **dict.fromkeys(("timeout", "headerTimeout", "chunkTimeout", "setCacheKey"), _HEARD),
    "*": _WithOwnKey(_REDIRECT),
}
_MODEL: Final[Mapping[str, Any]] = {
    "options": _OPTIONS,
    "cost": _WithOwnKey("may not set prices: limits count with them"),
    **dict.fromkeys(("headers", "provider"), _WithOwnKey(_REDIRECT)),
    "*": _HEARD,
}
_PROVIDER: Final[Mapping[str, Any]] = {
    "options": _OPTIONS,
    "models": {"*": _MODEL},
    "npm": _sdk_package,
    **dict.fromkeys(("name", "id", "whitelist", "blacklist"), _HEARD),
    **dict.fromkeys(("api", "headers"), _WithOwnKey(_REDIRECT)),
    "*": _REDIRECT,
}
_LAW: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("$schema", "model", "small_model", "default_agent", "username", "compaction"), _HEARD),
    **dict.fromkeys(("context_window_tokens", "theme", "keybinds", "layout", "logLevel"), _HEARD),
    **dict.fromkeys(("watcher", "tool_output"), _HEARD),
    "permission": _Restriction.tighter,
    "tools": _Restriction.tighter,
    "agent": {"*": _AGENT},
    "provider": {"*": _PROVIDER},
    "command": {"*": _without_shell},
    "instructions": _own_files,
    **dict.fromkeys(
        ("plugin", "mcp", "formatter", "lsp", "hooks", "shell", "experimental"), "may not run code"
    ),
    "*": "may not change this",
}
"""What an untrusted project may say, by key, ``*`` for every other key of the block.

A rule is `_HEARD`, the reason for which the key is left out, `_WithOwnKey`, the law for the block below it, or a
function that returns what of the value is heard (None: nothing) and drops the rest. References to the environment and
to files are taken out before.
"""


def is_free(key: str, *, definition: bool = False) -> bool:
    """Whether an untrusted project may say what it likes under a key of settings, or of a definition's front matter."""
    return (_AGENT if definition else _LAW).get(key) == _HEARD


def _inside(entry: str) -> bool:
    return (
        not entry.startswith(("/", "~", "$")) and "://" not in entry and ".." not in re.split(r"[/\\]", entry)
    )


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
    short = {name: entries for name, entries in base.items() if not isinstance(as_map(held).get(name), dict)}
    names = [name for name in {**base, **kept} if name in kept or (kept and isinstance(held, str))]
    return {name: {**short.get(name, {}), **kept.get(name, {})} for name in names}


def _rules(data: Plain, path: tuple[str, ...]) -> Placed:
    spread = _spread(value_at(data, path), path[-1] == "tools")
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


def viewed(layers: Iterable[Layer]) -> tuple[Config, dict[str, str]]:
    """Return the view of merged `layers`, and of each dotted path the layer that its value came from.

    An untrusted project's layer must have gone through `restrict`. Raises `ConfigError`.
    """
    known = list(layers)
    merged = merge(known)
    config = Config.from_data(merged.data)
    config = msgspec.structs.replace(config, foreign=foreign(known), asked=_asked_rules(known, merged.data))
    return config, merged.origins


def _asked_rules(layers: list[Layer], data: Plain) -> frozenset[tuple[str, str, str]]:
    """The rules that ask and that the person did not write: agent (or nothing), permission, pattern."""
    mine = [layer for layer in layers if layer.trusted or layer.scope != "project"]
    if len(mine) == len(layers):
        return frozenset()
    return _asking(data) - _asking(merge(mine).data)


def _asking(data: Plain) -> frozenset[tuple[str, str, str]]:
    agents = data.get("agent", {})
    blocks = {"": data.get("permission")} | {
        name: agents[name].get("permission") for name in ALLOWED if name in agents
    }
    return frozenset(
        (name, rule.permission, rule.pattern)
        for name, block in blocks.items()
        for rule in from_config(block or {})
        if rule.action == "ask"
    )
