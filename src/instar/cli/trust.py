"""``instar trust``: the folders whose plugins and hook scripts may run, and whose settings may say what guards."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from instar.cli.door import Context, Failure, door
from instar.cli.text import echo, one_line
from instar.settings.builtin_plugins import seen_in
from instar.settings.load import code_in, guards_in
from instar.wire import Plain


@click.command()
@click.argument("folder", required=False)
@click.option("--list", "listing", is_flag=True, help="Print the trusted folders.")
@click.option("--remove", is_flag=True, help="Do not trust FOLDER any more.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, with --list a JSON list.")
@door
def command(context: Context, folder: str | None, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust FOLDER (this one if it is left out): what it brings may run.

    What its settings say that guards (shield, evolve) is printed, and holds from now on as it was printed. Its plugins
    and tools are named, and run from now on as they are now. Once something has changed, trust FOLDER again. A folder
    inside a trusted one is trusted only if both lie in the same git worktree. INSTAR_TRUST=all trusts everything, for
    CI and containers.
    """
    if listing and (folder or remove):
        raise click.UsageError("--list stands alone")
    if listing:
        folders = [str(path) for path in context.trust.list()]
        echo(msgspec.json.encode(folders) if as_json else "\n".join(folders), nl=bool(folders) or as_json)
    elif remove:
        _remove(context, context.directory / (folder or "."), as_json)
    else:
        _add(context, context.folder(folder), as_json)


def told(
    guards: Mapping[str, Plain], seen: Mapping[str, Mapping[str, str]], code: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each thing that a person vouches for: settings that guard, what flagships find, and code."""
    for file, blocks in guards.items():
        for name, block in blocks.items():
            for key, value in block.items():
                yield one_line(f"{file}: {name}.{key} = {msgspec.json.encode(value).decode()}")
    for name, files in seen.items():
        yield from (one_line(f"{file}: its rules of {name} hold as they stand there now") for file in files)
    yield from (one_line(f"{name}: runs as it stands there now") for name in code)


def _add(context: Context, folder: Path, as_json: bool) -> None:
    # Read once: what is recorded is what was shown, whatever the files say by then.
    guards, seen = guards_in(folder, context.paths), seen_in(folder)
    code = code_in(folder, context.paths, context.environment)
    if not as_json:
        for line in told(guards, seen, code):
            echo(line)
    real = str(context.trust.add(folder, guards, seen, code))
    shown = {
        "trusted": real,
        "guards": guards,
        **({"seen": seen} if seen else {}),
        **({"code": code} if code else {}),
    }
    done = msgspec.json.format(msgspec.json.encode(shown))
    echo(done if as_json else f"trusted: {one_line(real)}")


def _remove(context: Context, path: Path, as_json: bool) -> None:
    # The folder may be gone by now: it can still be taken off the list.
    real = str(path.resolve())
    if not context.trust.remove(path):
        raise Failure(f"{real} is not on the list of trusted folders (instar trust --list)")
    echo(msgspec.json.encode({"removed": real}) if as_json else f"not trusted any more: {one_line(real)}")
