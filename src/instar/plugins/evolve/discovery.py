"""What a script registers: its name, its test and its tools; and what is wrong with that.

Source: seed 000 "discover" and "tool permissions". Checking is pure; a tool that cannot be offered is
left out with a sentence that says why, and the others stay.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec

from instar.plugin import wire
from instar.plugins.evolve import parameters, protocol

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What providers accept as a tool's name."""


PREFIX: Final = "evolve"
OWN: Final = frozenset(
    f"{PREFIX}_{name}"
    for name in (
        "datetime",
        *(f"hook_{verb}" for verb in ("list", "read", "write", "edit", "validate")),
        *(f"prompt_{verb}" for verb in ("list", "read", "write", "edit")),
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
    """What one script's `discover` said. `problems` are sentences about what was left out."""

    file: str
    name: str
    test: str | None = None
    tools: tuple[ScriptTool, ...] = ()
    problems: tuple[str, ...] = ()


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
    return Registration(file, name, test or None, tuple(tools.values()), tuple(problems))


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
    """Return what a call touches, for the permission rules: the values of the arguments that it names.

    A list counts item by item. Of a path with ``.`` or ``..`` in it both spellings are asked about, so
    that ``./SOUL.md`` is not a way round a rule about ``SOUL.md``.
    """
    found: list[str] = []
    for name in tool.patterns:
        value = args.get(name)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                text = protocol.as_text(item)
                found += [text, _plain_path(text)]
    return list(dict.fromkeys(found)) or ["*"]


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


def _patterns(permission: Any, schema: wire.Plain) -> tuple[str, ...]:
    if permission is None:
        return ()
    named = permission.get("arg") if isinstance(permission, Mapping) else None
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
    dotted = "://" not in text and any(piece in (".", "..") for piece in text.split("/")[:-1])
    return posixpath.normpath(text) if dotted else text
