"""Commands: prompts under a name, with places for arguments, as https://opencode.ai/docs/commands has them.

In a template ``$ARGUMENTS`` is all that was said, ``$1`` … a word of it (the last one takes the rest), ``$NAME``
what ``NAME=value`` gave, ``!`command` `` what a shell command printed. ``@path`` and ``@agent`` are mentions: they
become file and agent parts of the prompt, and the text stays as it is. Shell commands are found in the template
alone, and arguments reach them as shell variables: a word that somebody said is never run.
"""

import difflib
import mimetypes
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from instar.definitions.agent import shipped_prompt
from instar.message import Rule
from instar.settings.config import CommandConfig, Config
from instar.wire import Plain
from instar.wire.pattern import late_pattern

_MENTION: Final = late_pattern(r"(?<![\w`@/.])@([^\s`,@\0]+)")
_ENDINGS: Final = ".,;:!?)]}>'\""


class OutsideMention(Exception):
    """A mention of a file that may not be shown; the text names it."""


def mentions(text: str) -> list[str]:
    """Return what is mentioned, in order, each once. An address (``me@example.org``) mentions nothing."""
    return list(dict.fromkeys(found[1] for found in _MENTION.finditer(text)))


def leads_out(name: str) -> bool:
    """Whether a mention says itself that its file is elsewhere: by an absolute path, or by going up."""
    return name.startswith(("/", "~")) or ".." in name.split("/")


def mentioned_parts(
    text: str,
    folders: Collection[Path],
    agents: Collection[str],
    within: Path | None = None,
    free: Collection[str] = (),
) -> list[Plain]:
    """Return the parts that the mentions in `text` mean; a name that is neither file nor agent means nothing.

    A path is looked for in each of `folders` in turn; ``~/`` is the home folder. Punctuation at the end of a
    name is left out where the name with it does not exist. With `within` a path, links resolved, that leads
    elsewhere raises `OutsideMention`, unless its mention is one of `free`.
    """
    found: dict[str, Plain] = {}
    for name in mentions(text):
        for spelled in dict.fromkeys((name, name.rstrip(_ENDINGS))):
            path = next((path for path in _places(spelled, folders) if spelled and path.exists()), None)
            if path is not None:
                real = path.resolve()
                if within is not None and name not in free and not real.is_relative_to(within.resolve()):
                    raise OutsideMention(f"@{spelled} leads to {real}, outside of {within}")
                found.setdefault(str(path), _file(path))
                break
            if spelled in agents:
                found.setdefault(f"@{spelled}", {"type": "agent", "name": spelled})
                break
    return list(found.values())


def _places(name: str, folders: Collection[Path]) -> Iterator[Path]:
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~nobody: a person whom the machine does not know
        return
    if path.is_absolute():
        yield path
    else:
        yield from (folder / path for folder in folders)


def _file(path: Path) -> Plain:
    folder = path.is_dir()
    mime = "application/x-directory" if folder else mimetypes.guess_type(path.name)[0] or "text/plain"
    return {"type": "file", "mime": mime, "filename": path.name, "url": path.absolute().as_uri()}


_WORD: Final = late_pattern(r"""(?:"[^"]*"|'[^']*'|[^\s"']|["'])+""")
_QUOTED: Final = late_pattern(r""""([^"]*)"|'([^']*)'""")
_PLACE: Final = late_pattern(r"\$(?:(\d+)|([A-Z][A-Z0-9_]*)(?![A-Za-z0-9_]))")
SHELL: Final = late_pattern(r"(?<!\S)!`([^`]+)`")
"""A shell command in a template; in ``$!`` of a table in Markdown the mark stands behind something."""
_ALL: Final = "ARGUMENTS"


class UnknownCommand(Exception):
    """No command has that name, or it cannot be used; the text says why, or names similar ones."""


class Command(msgspec.Struct, frozen=True):
    """A command. Of one that is not `trusted` no shell command runs, and it mentions files of its project only.

    `grants` are what need not be asked in the turn that it begins.
    """

    name: str
    template: str
    description: str = ""
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None
    trusted: bool = True
    grants: tuple[Rule, ...] = ()

    @property
    def hints(self) -> list[str]:
        """The places in the template: ``$1`` … in order, names as they come, ``$ARGUMENTS`` last."""
        found = {match[0] for match in _PLACE.finditer(self.template)}
        numbers = sorted((place for place in found if place[1].isdigit()), key=lambda place: int(place[1:]))
        last = [f"${_ALL}"] if f"${_ALL}" in found else []
        return [*numbers, *(f"${name}" for name in self.names), *last]

    @property
    def names(self) -> list[str]:
        """The names for which an argument ``NAME=value`` gives the value; those in shell commands are the shell's."""
        text = SHELL.sub("", self.template)
        return list(dict.fromkeys(match[2] for match in _PLACE.finditer(text) if _is_name(match)))

    def missing(self, arguments: str) -> list[str]:
        """Return the names that `arguments` gives no value: a door asks for them, else they are empty."""
        given = split(self, arguments).values
        return [name for name in self.names if name not in given]


class Arguments(msgspec.Struct, frozen=True):
    """What was said after a command's name: `text` less the named values, its words, and these values."""

    text: str
    words: list[str]
    values: dict[str, str]


class Filled(msgspec.Struct, frozen=True):
    """A template with its arguments. Shell command number N stands in `text` as ``\\0N\\0``."""

    text: str
    shells: list[str]


Late = Callable[[str], Awaitable[Command | None]]
"""Finds a command that no file holds: a prompt of an MCP server."""


class Commands:
    """Every command of an instance. `problems` are one-line sentences about commands that cannot be used."""

    def __init__(self, config: Config, untrusted: Callable[[str], bool] = lambda place: False) -> None:
        """Build the commands; `untrusted` says of a dotted place of the settings whether a stranger wrote it."""
        self.problems: list[str] = []
        self.late: Late | None = None
        self._commands = {command.name: command for command in _builtin()}
        for name, block in config.command.items():
            self._add(name, block, config, untrusted)

    def get(self, name: str) -> Command:
        """Return the command called `name`. Raises `UnknownCommand` with the nearest names."""
        if name not in self._commands:
            near = difflib.get_close_matches(name, self._commands, n=3, cutoff=0.4) or sorted(self._commands)
            raise UnknownCommand(f"there is no command {name!r}; there are: {', '.join(near)}")
        return self._commands[name]

    async def find(self, name: str) -> Command:
        """Return the command `name`, from the settings or another source (MCP servers, skills). Raises as `get`."""
        found = await self.late(name) if self.late is not None and name not in self._commands else None
        return found or self.get(name)

    def all(self) -> list[Command]:
        """Return every command, built-in ones first."""
        return list(self._commands.values())

    def _add(self, name: str, block: CommandConfig, config: Config, untrusted: Callable[[str], bool]) -> None:
        place = f"command.{name}"
        # An empty one is a text: plugins name commands so whose prompt their `command.execute.before` writes.
        if block.template is None:
            self.problems.append(f"the command {name} cannot be used: {place}.template: expected its text")
            return
        provider = (block.model or "").partition("/")[0]
        model = block.model
        if provider in config.foreign and untrusted(f"{place}.model"):
            self.problems.append(
                f"{place}.model was left out: an untrusted project may not send the conversation to a server of its own"
            )
            model = None
        self._commands[name] = Command(
            name=name,
            template=block.template,
            description=block.description or "",
            agent=block.agent,
            model=model,
            variant=block.variant,
            subtask=block.subtask,
            trusted=not untrusted(f"{place}.template"),
        )


def split(command: Command, arguments: str) -> Arguments:
    """Split what was said into words, as a shell would with quotes, and the values of the template's names."""
    arguments = arguments.replace("\0", "")
    known = {match[2] for match in _PLACE.finditer(command.template) if _is_name(match)}
    words, values, unnamed = [], {}, []
    for match in _WORD.finditer(arguments):
        name, equals, value = match[0].partition("=")
        if equals and name in known:
            values[name] = _unquoted(value)
        else:
            words.append(_unquoted(match[0]))
            unnamed.append(match[0])
    return Arguments(" ".join(unnamed) if values else arguments.strip(), words, values)


def fill(command: Command, arguments: Arguments) -> Filled:
    """Put arguments into a command's template; what has no place of its own follows after a blank line."""
    shells: list[str] = []

    def held(match: re.Match[str]) -> str:
        shells.append(match[1])
        return f"\0{len(shells) - 1}\0"

    template = command.template.replace("\0", "")
    words = positional(command, arguments)

    def value(match: re.Match[str]) -> str:
        if match[1]:
            at = int(match[1]) - 1
            return words[at] if 0 <= at < len(words) else ""
        return arguments.text if match[2] == _ALL else arguments.values.get(match[2], "")

    text = _PLACE.sub(value, SHELL.sub(held, template))
    takes = any(not _is_name(match) for match in _PLACE.finditer(template))
    if arguments.text and not takes:
        text = f"{text}\n\n{arguments.text}"
    return Filled(text, shells)


def positional(command: Command, arguments: Arguments) -> list[str]:
    """Return the words by place; the last place in the template takes all that is left."""
    last = max((int(match[1]) for match in _PLACE.finditer(command.template) if match[1]), default=0)
    if not last or len(arguments.words) <= last:
        return arguments.words
    return [*arguments.words[: last - 1], " ".join(arguments.words[last - 1 :])]


def _is_name(match: re.Match[str]) -> bool:
    return match[2] is not None and match[2] != _ALL


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda match: match[1] if match[1] is not None else match[2], word)


def _builtin() -> Iterator[Command]:
    yield Command(
        "init",
        shipped_prompt("init"),
        "Write AGENTS.md, or bring it up to date: what an agent must know of this project.",
    )
    yield Command(
        "review",
        shipped_prompt("review"),
        "Review changes: what is not committed, a commit, a branch or a pull request.",
        subtask=True,
    )
