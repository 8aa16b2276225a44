"""Writes `src/instar/client/{asynchronous,synchronous}` from the operations of the server. Run it as a script."""

import builtins
import inspect
import keyword
import re
import subprocess
import sys
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from instar.message import KnownPart
from instar.plugin.route import Bound, Signature, operations, signature
from instar.server.app import families
from instar.server.contributed import declared
from instar.wire import wire_name

CLIENT = Path(__file__).parents[2] / "src" / "instar" / "client"
MADE = "Made by tests/client/generator.py from the server's operations; change those instead."
ROOMS = ("instar.api", "instar.message", "instar.event", "instar.wire", "instar.client")
"""Where the types of a client may stand."""
KNOWN: Final = object()
"""Stands for the union of all known parts, which has a name."""


class Shapes:
    """Types of flagships, which a client may not import: it is given types of the same form, by the flagship's name."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Any]] = defaultdict(dict)

    def room(self, kind: Any) -> str:
        """The module of the type that stands for a flagship's. Raises `ValueError` when two have one name."""
        owner = str(kind.__module__).split(".")[2]
        if self.of[owner].setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"two types of {owner} are called {kind.__name__}")
        return f"instar.client.shapes.{owner}"

    def sources(self) -> dict[str, str]:
        """The modules of those types, by name; types that they hold are added until there are no more."""
        made: dict[str, str] = {"__init__.py": f'"""{MADE}"""\n'}
        for owner in sorted(self.of):
            names, classes = Names(self), {}
            while left := [kind for name, kind in self.of[owner].items() if name not in classes]:
                for kind in left:
                    classes[kind.__name__] = self._source(kind, names)
            names.imports["instar.wire"].add("Wire")
            names.imports.pop(f"instar.client.shapes.{owner}", None)
            imports = "\n".join(
                f"from {room} import {', '.join(sorted(kinds))}" for room, kinds in names.imports.items()
            )
            # A type stands before those that hold it: it was found after them.
            body = "\n\n\n".join(reversed(classes.values()))
            needs = "import msgspec\n" if "msgspec." in body else ""
            made[f"{owner}.py"] = f'"""{MADE}"""\n\n{needs}{imports}\n\n\n{body}\n'
        return made

    @staticmethod
    def _source(kind: Any, names: "Names") -> str:
        summary = inspect.cleandoc(kind.__doc__ or kind.__name__)
        end = '\n"""' if "\n" in summary else '"""'
        lines = [f"class {kind.__name__}(Wire):", *f'"""{summary}{end}'.splitlines(), ""]
        lines += [
            f"{field.name}: {names.of(field.type)}{_default(field)}" for field in msgspec.structs.fields(kind)
        ]
        return "\n".join([lines[0], *(f"    {line}" if line else "" for line in lines[1:])])


def _default(field: Any) -> str:
    named = "" if field.encode_name == wire_name(field.name) else f"name={field.encode_name!r}"
    if field.default_factory is not msgspec.NODEFAULT:
        plain = field.default_factory if field.default_factory in (list, dict, tuple) else None
        if plain is None:
            raise ValueError(f"the default of {field.name} is made by {field.default_factory}")
        return f" = msgspec.field({', '.join(filter(None, [named, f'default_factory={plain.__name__}']))})"
    if isinstance(field.default, msgspec.Struct) and field.default == type(field.default)():
        made = f"default_factory={type(field.default).__name__}"
        return f" = msgspec.field({', '.join(filter(None, [named, made]))})"
    if field.default is not msgspec.NODEFAULT:
        default = "msgspec.UNSET" if field.default is msgspec.UNSET else repr(field.default)
        return f" = msgspec.field(default={default}, {named})" if named else f" = {default}"
    return f" = msgspec.field({named})" if named else ""


class Names:
    """The types that a module names, and where each is imported from."""

    def __init__(self, shapes: Shapes) -> None:
        self.imports: dict[str, set[str]] = defaultdict(set)
        self._shapes = shapes

    def of(self, kind: Any) -> str:
        """The source of a type's name."""
        if kind is None or kind is type(None):
            return "None"
        if kind is KNOWN:
            return "KnownPart"
        origin = get_origin(kind)
        if origin is Annotated:
            return self.of(get_args(kind)[0])
        if origin in (Union, types.UnionType):
            return self._union(get_args(kind))
        if origin is Literal:
            self.imports["typing"].add("Literal")
            return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
        if origin is not None:
            inside = ", ".join("..." if one is Ellipsis else self.of(one) for one in get_args(kind))
            if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
                self.imports[self._room(origin)].add(origin.__name__)
            # An answer is a fresh list, whatever the server made it of.
            name = (
                "list"
                if origin.__name__ == "Sequence"
                else "dict"
                if origin.__name__ == "Mapping"
                else origin.__name__
            )
            return f"{name}[{inside}]"
        if kind is Any or kind is object:
            self.imports["typing"].add("Any")
            return "Any"
        if kind.__module__ != "builtins":
            self.imports[self._room(kind)].add(kind.__name__)
        return str(kind.__name__)

    def _union(self, members: tuple[Any, ...]) -> str:
        if set(members) >= set(get_args(KnownPart)):
            self.imports["instar.message"].add("KnownPart")
            members = (*(one for one in members if one not in get_args(KnownPart)), KNOWN)
        return " | ".join(dict.fromkeys(self.of(one) for one in members))

    def _room(self, kind: Any) -> str:
        module = str(kind.__module__)
        if module.startswith("instar.plugins."):
            return self._shapes.room(kind)
        for room in ("instar.message", "instar.event"):
            if module.startswith(room):
                return room
        if not module.startswith(ROOMS):
            raise TypeError(
                f"{module}.{kind.__name__} is an answer or a body and stands in none of {', '.join(ROOMS)}"
            )
        return module


def snake(name: str) -> str:
    """``deleteMessage`` is ``delete_message``; a keyword gets an underscore."""
    made = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    return made + "_" if keyword.iskeyword(made) else made


def places(bounds: list[Bound]) -> dict[tuple[str, ...], list[tuple[str, Bound]]]:
    """Operations by their namespace; what lies below another operation's name is joined to one name with it."""
    ids = {bound.operation.id for bound in bounds}
    found: dict[tuple[str, ...], list[tuple[str, Bound]]] = defaultdict(list)
    for bound in bounds:
        words = bound.operation.id.split(".")
        cut = next((i for i in range(1, len(words)) if ".".join(words[:i]) in ids), len(words))
        space = tuple(words[: min(cut, len(words)) - 1])
        found[space].append((snake("_".join(words[len(space) :])), bound))
    return found


def class_name(space: tuple[str, ...]) -> str:
    """``("experimental", "workspace")`` is ``ExperimentalWorkspaceCalls``."""
    return "".join(word[:1].upper() + word[1:] for word in space) + "Calls"


def module_name(space: tuple[str, ...]) -> str:
    """The module of a namespace: its first word, and the second where the first holds many."""
    return "_".join(snake(word) for word in space[: 2 if space[0] in ("v2", "experimental", "instar") else 1])


def defaults(query: Any) -> Iterator[tuple[str, str, Any, str]]:
    """The arguments that a query makes: name, wire name, type and default."""
    for field in sorted(msgspec.structs.fields(query), key=lambda one: not one.required):
        plain = field.default if field.default is not msgspec.NODEFAULT else None
        yield field.name, field.encode_name, field.type, "" if field.required else f" = {plain!r}"


def method(name: str, bound: Bound, taken: Signature, names: Names, *, waits: bool) -> str:
    """The source of one method."""
    operation = bound.operation
    arguments = [f"{argument}: {names.of(kind)}" for argument, kind in taken.path.items()]
    given = [repr(operation.method), repr(re.sub(r"\{[^}]*\}", "{}", operation.path))]
    if taken.path:
        order = re.findall(r"\{(\w+)", operation.path)
        by_wire = {wire_name(argument): argument for argument in taken.path}
        given.append(f"({', '.join(by_wire[one] for one in order)},)")
    if taken.body is not None:
        text = names.of(taken.body)
        arguments.append(f"body: {text} | None = None" if taken.optional else f"body: {text}")
    if taken.query is not None:
        fields = list(defaults(taken.query))
        arguments += ["*"] * bool(fields)
        for argument, _, kind, default in fields:
            text = names.of(kind)
            text = f"{text} | None" if default == " = None" and "None" not in text.split(" | ") else text
            arguments.append(f"{argument}: {text}{default}")
        inside = ", ".join(f"{wire!r}: {argument}" for argument, wire, _, _ in fields)
        given.append(f"query={{{inside}}}")
    if taken.body is not None:
        given.append("body=body")
    names.imports["instar.client.request"].add("Request")
    request = f"Request({', '.join(given)})"
    head = ", ".join(["self", *arguments])
    doc = f'"""{bound.summary}"""'
    if operation.media == "text/event-stream":
        kind = "Iterator" if waits else "AsyncIterator"
        names.imports["collections.abc"].add(kind)
        names.imports["instar.event"].add("Event")
        return f"def {name}({head}) -> {kind}[Event]:\n    {doc}\n    return self._connection.events({request})\n"
    start, wait = ("def", "") if waits else ("async def", "await ")
    if operation.status == 204:
        return (
            f"{start} {name}({head}) -> None:\n    {doc}\n    {wait}self._connection.ask({request}, None)\n"
        )
    answer = names.of(str if operation.media != "application/json" else taken.answer)
    return (
        f"{start} {name}({head}) -> {answer}:\n    {doc}\n"
        f"    answer: {answer} = {wait}self._connection.ask({request}, {answer})\n    return answer\n"
    )


def sources() -> dict[str, dict[str, str]]:
    """Every file of the two clients, by package and name, and the types that only they have."""
    shapes = Shapes()
    made = {"asynchronous": package(shapes, waits=False), "synchronous": package(shapes, waits=True)}
    made["shapes"] = shapes.sources()
    return formatted(made)


def package(shapes: Shapes, *, waits: bool) -> dict[str, str]:
    """Every file of one client, by its name."""
    bounds = [bound for family in families() for bound in operations(family)]
    bounds += [bound for flagship in declared().values() for bound in flagship]
    found = places([bound for bound in bounds if bound.operation.media != "websocket"])
    spaces = sorted(
        {space[:i] for space in found for i in range(1, len(space) + 1)}, key=lambda one: (-len(one), one)
    )
    modules: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for space in spaces:
        modules[module_name(space)].append(space)
    made = {
        f"{name}.py": module(inside, spaces, found, Names(shapes), waits=waits)
        for name, inside in modules.items()
    }
    made["__init__.py"] = root([space for space in spaces if len(space) == 1], waits=waits)
    return made


def module(
    inside: list[tuple[str, ...]],
    spaces: list[tuple[str, ...]],
    found: dict[tuple[str, ...], list[tuple[str, Bound]]],
    names: Names,
    *,
    waits: bool,
) -> str:
    """The source of one module."""
    classes = []
    connection = "Connection" if waits else "AsyncConnection"
    names.imports["instar.client.connection"].add(connection)
    package = "synchronous" if waits else "asynchronous"
    for space in inside:
        below = sorted(one for one in spaces if one[:-1] == space)
        lines = [f"class {class_name(space)}:", f'    """``{".".join(map(snake, space))}``."""', ""]
        lines += [
            f"    def __init__(self, connection: {connection}) -> None:",
            "        self._connection = connection",
        ]
        for one in below:
            if module_name(one) != module_name(space):
                names.imports[f"instar.client.{package}.{module_name(one)}"].add(class_name(one))
            lines.append(f"        self.{snake(one[-1])} = {class_name(one)}(connection)")
        # A method named as a builtin comes last: the types of the others mean the builtin.
        for name, bound in sorted(found.get(space, ()), key=lambda one: one[0] in dir(builtins)):
            text = method(name, bound, signature(bound.handler), names, waits=waits)
            lines += ["", *("    " + line for line in text.splitlines())]
        classes.append("\n".join(lines))
    imports = "\n".join(
        f"from {room} import {', '.join(sorted(kinds))}" for room, kinds in sorted(names.imports.items())
    )
    return f'"""{MADE}"""\n\n{imports}\n\n\n' + "\n\n\n".join(classes) + "\n"


def root(spaces: list[tuple[str, ...]], *, waits: bool) -> str:
    """The source of the client itself."""
    package, connection, name = (
        ("synchronous", "Connection", "Client")
        if waits
        else ("asynchronous", "AsyncConnection", "AsyncClient")
    )
    lines = [
        f'"""{MADE}"""',
        "",
        "from typing import Any",
        "",
        f"from instar.client.connection import {connection}",
    ]
    lines += [
        f"from instar.client.{package}.{module_name(one)} import {class_name(one)}" for one in sorted(spaces)
    ]
    lines += [
        "",
        "",
        f"class {name}({connection}):",
        '    """A server\'s operations, by their names (`instar.client`)."""',
        "",
    ]
    lines += [
        '    def __init__(self, url: str = "http://127.0.0.1:4096", **how: Any) -> None:',
        "        super().__init__(url, **how)",
    ]
    lines += [f"        self.{snake(one[0])} = {class_name(one)}(self)" for one in sorted(spaces)]
    return "\n".join(lines) + "\n"


def formatted(made: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Source as the linter leaves it; one run for all files, since a start of it costs more than its work."""
    root = CLIENT.parents[2]
    with tempfile.TemporaryDirectory() as folder:
        for package, files in made.items():
            (Path(folder) / package).mkdir()
            for name, source in files.items():
                (Path(folder) / package / name).write_text(source)
        for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--config", str(root / "pyproject.toml"), folder]
            subprocess.run([*ruff, "--no-cache"], cwd=root, check=True)
        return {
            package: {name: (Path(folder) / package / name).read_text() for name in files}
            for package, files in made.items()
        }


def main() -> None:
    """Write both clients, and remove the modules that no operation needs any more."""
    for name, files in sources().items():
        folder = CLIENT / name
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.py"):
            if old.name not in files:
                old.unlink()
        for file, source in files.items():
            (folder / file).write_text(source)


if __name__ == "__main__":
    main()
