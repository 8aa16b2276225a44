"""``instar trust``: the folders whose plugins, tools and rules may run, in the version that a person accepted."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from instar.cli import complete, person
from instar.cli.door import Context, Failure, door
from instar.cli.text import counted, echo, harmless, note, one_line, print_json
from instar.settings import own_edits
from instar.settings.layer import as_map
from instar.settings.permission import from_config
from instar.settings.steered import CODE_FOLDERS, DEFINITION_FOLDERS, SETTINGS, Found, is_package, part
from instar.settings.steering import SteeringChange, SteeringView
from instar.settings.trust import Trust, TrustError
from instar.wire.document import DocumentError, parse_jsonc
from instar.wire.secret import masked

_MARK: Final = "INSTAR_RUN"
"""The variable of programs that instar started."""
_DIFF: Final = "diff"
_SHOWN: Final = 200
"""Characters of a setting that are shown."""
_KINDS: Final = {
    **{name: name.removesuffix("s") for name in (*CODE_FOLDERS, *DEFINITION_FOLDERS)},
    **dict.fromkeys(("mode", "modes"), "agent"),
}
_RUN: Final = ("plugin", "tool", "program")
_DEFINED: Final = ("agent", "command", "skill")


@click.command()
@click.argument("words", nargs=-1, metavar="[diff] [FOLDER]", shell_complete=complete.folders)
@click.option("--list", "listing", is_flag=True, help="Print the trusted folders.")
@click.option("--remove", is_flag=True, help="Do not trust FOLDER any more.")
@click.option(
    "--edits-are-mine/--no-edits-are-mine",
    "mine",
    default=None,
    help="Accept from now on at each start what changed in FOLDER while nothing of a model's lived, or no more.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object, with --list and diff a JSON list."
)
@door
def command(
    context: Context, words: tuple[str, ...], listing: bool, remove: bool, mine: bool | None, as_json: bool
) -> None:
    """Trust FOLDER (this one if it is left out): what it brings may run.

    What steers in it (settings, plugins, tools, rules and their programs, agents and commands that grant something) is
    named, and holds from now on as it is now, also what is in folders of its git worktree below. What is changed later
    is not heard until you trust FOLDER again; instar trust diff [FOLDER] shows it. A folder inside a trusted one is
    trusted only if both lie in the same git worktree. INSTAR_TRUST=all trusts everything, for CI and containers.
    """
    is_diff = words[:1] == (_DIFF,)
    folder = next(iter(words[is_diff:]), None)
    if len(words) > 1 + is_diff:
        raise click.UsageError(f"one FOLDER is expected, found {' '.join(words[is_diff:])}")
    if (
        (listing and (words or remove))
        or (remove and is_diff)
        or (mine is not None and (listing or remove or is_diff))
    ):
        raise click.UsageError("--list stands alone, and so does diff, --remove and --edits-are-mine")
    if listing:
        folders = [str(path) for path in context.trust.list()]
        echo(msgspec.json.encode(folders) if as_json else "\n".join(folders), nl=bool(folders) or as_json)
    elif is_diff:
        _diff(context, context.folder(folder), as_json)
    elif remove:
        _remove(context, context.directory / (folder or "."), as_json)
    elif mine is False:
        real = context.folder(folder).resolve()
        own_edits.say(context.trust, context.paths, real, False)
        again = f"edits are asked about again: {one_line(str(real))}"
        echo(msgspec.json.encode({"asked": str(real)}) if as_json else again)
    else:
        _add(context, context.folder(folder), as_json, mine is True)


def brings(root: Path, found: Mapping[Path, Found]) -> Iterator[str]:
    """Yield a line for each thing that a person accepts with a folder: what runs, and what its settings say."""
    packaged = 0
    for folder, files in found.items():
        for path, file in files.items():
            name = one_line(_name(root, path))
            kind = kind_of(folder, path)
            if is_package(path):
                packaged += 1
            elif kind == "settings":
                yield from (f"{name}: {line}" for line in _settings(file.data))
            elif kind in _RUN:
                yield f"{name}: a {kind}, which runs as it stands there now"
            elif kind == "rules":
                runs = "".join(f"; they run {one_line(text)}" for text in _commands(_written(file.data)))
                yield f"{name}: its rules hold as they stand there now{runs}"
            elif part(path, file.data):
                yield f"{name}: the {kind} may do what it says there now"
    if packaged:
        yield f"{counted(packaged, 'file')} of packages, which run as they stand there now"


def kind_of(folder: Path, path: Path) -> str:
    """Return what a file that steers is."""
    inner = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
    if path.name in SETTINGS:
        return "settings"
    if len(inner) > 2 and inner[1] in _KINDS:
        return _KINDS[inner[1]]
    return "rules" if path.suffix == ".json" and inner[:1] != (path.name,) else "program"


def summary(found: Mapping[Path, Found], changes: Iterable[SteeringChange] | None = None) -> str:
    """Return in a few words what a folder brings; of `changes`, if given, those alone."""
    wanted = None if changes is None else {change.name for change in changes if change.how != "gone"}
    counts: dict[str, int] = {}
    said: list[str] = []
    for folder, files in found.items():
        for path, file in files.items():
            if is_package(path) or (wanted is not None and _name(folder, path) not in wanted):
                continue
            kind = kind_of(folder, path)
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "settings":
                said += _loosened(file.data)
            said += [
                f"{one_line(path.name)} runs {one_line(text)}" for text in _commands(_written(file.data))
            ]
    runs = [
        f"{counted(counts[kind], kind)} (run inside instar)" for kind in ("plugin", "tool") if kind in counts
    ]
    rest = [counted(counts[kind], word) for kind, word in _WORDS.items() if kind in counts]
    return ", ".join([*runs, *rest, *said])


_WORDS: Final = {
    "rules": "file of rules",
    "program": "program or module",
    "settings": "settings file",
    **{kind: kind for kind in _DEFINED},
}


def _settings(data: bytes) -> Iterator[str]:
    for key, value in masked(_written(data)).items():
        for name, inner in value.items() if isinstance(value, dict) else (("", value),):
            told = msgspec.json.encode(inner).decode()
            place = f"{key}.{name}" if name else key
            yield one_line(f"{place} = {told if len(told) <= _SHOWN else told[:_SHOWN] + '…'}")


def _loosened(data: bytes) -> list[str]:
    """What a file of settings allows, and whom it lets in, in a few words."""
    said = _written(data)
    rules = [rule for rule in from_config(said.get("permission") or {}) if rule.action == "allow"]
    allowed = [f"{f'{rule.permission} {rule.pattern}'.removesuffix(' *')}: allow" for rule in rules]
    servers = [f"MCP server {name}" for name in as_map(said.get("mcp"))]
    return [one_line(text) for text in (*allowed, *servers)]


def _commands(said: Any) -> Iterator[str]:
    """Yield the commands of rules, wherever they stand."""
    for key, value in (
        said.items() if isinstance(said, dict) else enumerate(said if isinstance(said, list) else ())
    ):
        if key == "command" and isinstance(value, str):
            yield value
        else:
            yield from _commands(value)


def _written(data: bytes) -> dict[str, Any]:
    try:
        return as_map(parse_jsonc(data.decode(), "settings"))
    except (UnicodeDecodeError, DocumentError):
        return {}


def _name(folder: Path, path: Path) -> str:
    name = path.relative_to(folder) if path.is_relative_to(folder) else path
    return os.fsencode(name).decode(errors="replace")


def check_person(context: Context, command: str = "instar trust") -> None:
    """Raise `Failure` in a program that instar started: only a person accepts.

    The shield is what keeps such a program from it: it cannot write instar's data. This says so before it fails.
    """
    if context.environment.get(_MARK):
        raise Failure(
            f"{command} is a person's: it is not done for a program that instar started. Type it in a terminal of "
            "your own"
        )


def _add(context: Context, folder: Path, as_json: bool, mine: bool) -> None:
    check_person(context)
    if mine and not person.is_there():
        raise Failure("--edits-are-mine is said by a person: type it in a terminal")
    # Read once: what is accepted is what was shown, whatever the files say by then.
    found = context.trust.found(folder)
    if not as_json:
        for line in brings(folder.resolve(), found):
            echo(line)
    real = context.trust.add(folder, found)
    if mine:
        own_edits.say(context.trust, context.paths, real, True)
    names = [_name(real, path) for files in found.values() for path in files if not is_package(path)]
    is_mine = own_edits.is_said(context.paths, real)
    if as_json:
        print_json({"trusted": str(real), "accepted": names, "edits_are_mine": is_mine})
    else:
        echo(f"trusted: {one_line(str(real))}")
        if is_mine:
            echo(
                "edits are yours: what steers there and changes while nothing of a model's lives is accepted"
            )


def _diff(context: Context, folder: Path, as_json: bool) -> None:
    if not context.trust.is_trusted(folder):
        raise Failure(
            f"{folder} is not trusted, so nothing of it was accepted (instar trust {shlex.quote(str(folder))})"
        )
    found = list(differences(context.trust, folder))
    if as_json:
        print_json([{"file": change.name, "change": change.how, "diff": diff} for change, diff in found])
        return
    echo(_said(found), nl=False)
    if not found:
        echo(f"{one_line(str(folder.resolve()))} is as it was accepted")


def differences(trust: Trust, folder: Path) -> Iterator[tuple[SteeringChange, str]]:
    """Yield what is not as it was accepted in a trusted folder and those below it, each with its diff."""
    for inner, files in trust.found(folder).items():
        yield from trust.steering.diff(trust.view(inner), files)


async def trusted_now(context: Context, folder: Path) -> bool:
    """Ask the person whether a folder is to be trusted, and remember the answer."""
    trust, found = context.trust, context.trust.found(folder)
    for line in brings(folder, found):
        echo(line, err=True)
    question = f"Trust {folder}? It brings: {summary(found) or 'nothing'}. That may then run on this machine."
    if not await person.decided(question, lambda: _contents(found)):
        trust.refuse(folder)
        return False
    trust.add(folder, found)
    return True


async def accepted_now(context: Context, view: SteeringView) -> bool:
    """Ask the person whether what is not as accepted in a trusted folder is to be heard from now on."""
    trust, folder = context.trust, view.folder
    try:
        files = trust.found(folder)[folder]
    except (DocumentError, TrustError) as error:
        note(f"{error}; it cannot be accepted until that is mended")
        return False
    date = trust.steering.earlier(folder, files)
    past = f"; this is the version accepted on {date}" if date else ""
    names = ", ".join(f"{one_line(change.name)} ({change.how})" for change in view.changes)
    what = summary({folder: files}, view.changes)
    question = f"Changed in {folder}: {names}{past}. Accept{f': {what}' if what else ''}?"
    if not await person.decided(question, lambda: _said(trust.steering.diff(view, files))):
        return False
    trust.accept(folder, files)
    return True


def _said(found: Iterable[tuple[SteeringChange, str]]) -> str:
    return "".join(f"{one_line(change.name)} ({change.how})\n{harmless(diff)}" for change, diff in found)


def _contents(found: Mapping[Path, Found]) -> str:
    texts = {
        path: file.data for files in found.values() for path, file in files.items() if not is_package(path)
    }
    return "".join(f"{path}\n{harmless(data.decode(errors='replace'))}\n" for path, data in texts.items())


def _remove(context: Context, path: Path, as_json: bool) -> None:
    # The folder may be gone by now: it can still be taken off the list.
    real = str(path.resolve())
    own_edits.say(context.trust, context.paths, Path(real), False)
    if not context.trust.remove(path):
        raise Failure(f"{real} is not on the list of trusted folders (instar trust --list)")
    echo(msgspec.json.encode({"removed": real}) if as_json else f"not trusted any more: {one_line(real)}")
