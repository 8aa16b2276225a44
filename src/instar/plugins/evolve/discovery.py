"""What a script registers: its name, its test and its tools; and what is wrong with that.

`discover` is described in opencode-evolve's README. Checking is pure; a tool that cannot be offered is left out
with a sentence that says why, and the others stay.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec

from instar.plugin import permission, wire
from instar.plugins.evolve import parameters, protocol

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What providers accept as a tool's name."""


KEYS: Final = ("name", "test", "tools", "sandbox")
"""What the answer of `discover` may hold."""

PREFIX: Final = "evolve"
OWN: Final = frozenset(
    f"{PREFIX}_{name}"
    for name in (
        *("datetime", "heartbeat_time", "tool_list", "tool_invoke", "log", "rollback", "pending", "attempts"),
        *(f"hook_{verb}" for verb in ("list", "read", "write", "edit", "propose", "validate")),
        *(f"prompt_{verb}" for verb in ("list", "read", "write", "edit", "propose")),
    )
)
"""The full names of evolve's own tools: the way out of a broken script, so no script may take them."""


class BadTool(ValueError):
    """A tool definition that cannot be offered; the text says why."""


class ScriptTool(msgspec.Struct, frozen=True):
    """A tool of a script: its own name, its full name, and what the model reads of it.

    `patterns` names the arguments whose values are asked about; empty for the pattern ``*``.
    """

    name: str
    full: str
    description: str
    parameters: wire.Plain
    patterns: tuple[str, ...] = ()


class Registration(msgspec.Struct, frozen=True):
    """What one script's `discover` said. `problems` are sentences about what was left out.

    `note` says which of its keys have no effect, "" where all have.
    """

    file: str
    name: str
    test: str | None = None
    tools: tuple[ScriptTool, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""


def register(file: str, answer: protocol.Answer) -> Registration:
    """Return the registration that the `discover` answer of the script `file` makes."""
    problems: list[str] = []
    name = _name(str(answer.get("name") or PurePath(file).stem))
    test = answer.get("test")
    if test is not None and not _is_test(test):
        problems.append(f"{file}: test: expected the bare name of a file in tests/, found {test!r}")
        test = None
    tools: dict[str, ScriptTool] = {}
    for definition in answer.get("tools") or []:
        try:
            tool = _tool(name, definition)
            if tool.full in tools:
                raise BadTool("it is defined twice")
        except (BadTool, parameters.BadParameter) as error:
            problems.append(f"{file}: tool {_called(definition)} is left out: {error}")
        else:
            tools[tool.full] = tool
    unknown = ", ".join(repr(key) for key in answer if key not in KEYS)
    note = f"{file}: discover answers {unknown}, which has no effect: it knows {', '.join(KEYS)}"
    return Registration(
        file, name, test or None, tuple(tools.values()), tuple(problems), note if unknown else ""
    )


def collisions(registrations: Sequence[Registration]) -> tuple[set[str], list[str]]:
    """Return the full tool names that must be left out since a name is used twice, and a sentence on each.

    Two scripts of one name both lose all their tools; two tools of one full name are both left out; so is
    a tool that would stand in for one of `OWN`.
    """
    dropped: set[str] = set()
    problems: list[str] = []
    for name, twins in _grouped((registration.name, registration) for registration in registrations).items():
        if len(twins) > 1:
            dropped.update(tool.full for twin in twins for tool in twin.tools)
            problems.append(
                f"{_files(twins)} both register the name {name!r}: their tools are left out; rename one"
            )
    for full, twins in _grouped((t.full, one) for one in registrations for t in one.tools).items():
        if full in OWN:
            problems.append(f"{_files(twins)}: tool {full} is left out: evolve has a tool of that name")
        elif len(twins) > 1 and full not in dropped:
            problems.append(f"{_files(twins)} both define the tool {full}: it is left out; rename one")
        else:
            continue
        dropped.add(full)
    return dropped, problems


def patterns(tool: ScriptTool, args: Mapping[str, Any]) -> list[str]:
    """Return what a call touches, for the permission rules: the values of the arguments that it names."""
    return asked_about(tool.patterns, args)


def asked_about(names: Iterable[str], args: Mapping[str, Any]) -> list[str]:
    """Return the values of these arguments as patterns; ``*`` without names.

    A list counts item by item. Of a path with ``.``, ``..``, two slashes or one at its end both spellings are asked
    about, so that ``./SOUL.md`` and ``SOUL.md/`` are no way round a rule about ``SOUL.md``. What no rule can name
    (nothing at all, an object, a wildcard) is in doubt (`permission.DOUBT`): a rule about some values may be about it.
    """
    found = [text for name in names for text in _texts(name, args.get(name))]
    return list(dict.fromkeys(found)) or ["*"]


def remembered(names: Sequence[str], patterns: Iterable[str]) -> list[str]:
    """Return those of `asked_about` that an `always` answer may cover: a wildcard in one would cover others too."""
    return [one for one in patterns if not set(one) & set("*?")] if names else ["*"]


def _texts(name: str, value: Any) -> list[str]:
    if isinstance(value, list) and value:
        return [text for item in value for text in _texts(name, item)]
    text = protocol.as_text(value)
    if value in (None, "", []):
        return [f"{permission.DOUBT}{name}: nothing"]
    if isinstance(value, Mapping) or set(text) & set("*?["):
        return [text, f"{permission.DOUBT}{name}: {text}"]
    if isinstance(value, float) and value.is_integer():
        return [text, str(int(value))]
    return [text, _plain_path(text)]


def _tool(prefix: str, definition: Any) -> ScriptTool:
    if not isinstance(definition, Mapping):
        raise BadTool(f"expected an object, found {protocol.clip(protocol.as_text(definition), 80)}")
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise BadTool("it has no name")
    full = f"{prefix}_{_name(name)}"
    if not NAME.fullmatch(full):
        raise BadTool(f"{full!r} is longer than 64 characters")
    schema = parameters.schema(full, definition.get("parameters"))
    description = str(definition.get("description") or "") or f"{name}, a tool of {prefix}"
    return ScriptTool(name, full, description, schema, _patterns(definition.get("permission"), schema))


def _patterns(asks: Any, schema: wire.Plain) -> tuple[str, ...]:
    if asks is None:
        return ()
    named = asks.get("arg") if isinstance(asks, Mapping) else None
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise BadTool('permission: expected {"arg": "name"} or {"arg": ["name", …]}')
    unknown = [name for name in names if name not in schema["properties"]]
    if unknown:
        raise BadTool(f"permission.arg names {', '.join(unknown)}, which is no parameter of it")
    return tuple(names)


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)


def _is_test(test: Any) -> bool:
    return isinstance(test, str) and bool(test) and test == PurePath(test).name and test != ".."


def _called(definition: Any) -> str:
    named = definition.get("name") if isinstance(definition, Mapping) else None
    return repr(named) if named else "without a name"


def _grouped(pairs: Iterable[tuple[str, Registration]]) -> dict[str, list[Registration]]:
    groups: dict[str, list[Registration]] = {}
    for key, registration in pairs:
        groups.setdefault(key, []).append(registration)
    return groups


def _files(twins: Sequence[Registration]) -> str:
    return " and ".join(sorted({twin.file for twin in twins}))


def _plain_path(text: str) -> str:
    pieces = text.removeprefix("/").split("/")
    if "://" in text or text == "/" or not set(pieces) & {"", ".", ".."}:
        return text
    plain = posixpath.normpath(text)
    # Two slashes in front mean something of their own by POSIX, and nothing here.
    return plain[1:] if plain.startswith("//") else plain
