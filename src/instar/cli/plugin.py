"""``instar plugin``: plugin folders of Claude Code and of Agent Plugins, in the version that a person accepted."""

import asyncio
import difflib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from instar.cli import complete, person
from instar.cli.door import Context, Failure, door, json_option
from instar.cli.text import echo, harmless, note, one_line, print_json, print_list, short
from instar.cli.trust import check_person
from instar.definitions.command import SHELL
from instar.definitions.markdown import plugin_agents
from instar.definitions.skill import NAME, Skill, plugin_skills
from instar.settings.layer import Layer, as_map
from instar.settings.plugin_folders import (
    Files,
    InstalledPlugin,
    PluginFolder,
    PluginFolderError,
    PluginFolders,
    layers,
)
from instar.settings.plugin_source import PluginCandidate, candidate

_NOT_TAKEN = {
    "outputStyles": "output styles",
    "output-styles": "output styles",
    "lspServers": "language servers",
    ".lsp.json": "language servers",
    "themes": "themes",
    "monitors": "monitors",
    "settings.json": "settings",
    "userConfig": "values to ask the person for",
    "bin": "programs for the PATH",
}
"""What a plugin may bring that instar does not use: keys of its manifest, and files."""
_SHOWN = ("name", "format", "source", "ref", "entry", "commit", "digest")
_yes = click.option("--yes", is_flag=True, help="Accept without being asked: what it brings is printed.")


@click.group()
def command() -> None:
    """Add, list, update or remove plugin folders of Claude Code and of Agent Plugins.

    They bring commands, agents, skills, rules of hooks and MCP servers (instar docs plugin-folders). For plugins
    that are code (Python, JavaScript) see `plugin` in the settings.
    """


@command.command()
@click.argument("source", shell_complete=complete.folders)
@click.argument("name", required=False, default="")
@click.option(
    "--ref", default="", help="The branch, tag or commit of a git URL; the default branch without it."
)
@_yes
@json_option
@door
async def add(context: Context, source: str, name: str, ref: str, yes: bool, as_json: bool) -> None:
    """Add the plugin of SOURCE: a folder, or the URL of a git repository.

    If a marketplace stands there, NAME is the plugin in it. What the plugin brings is shown, and used once you accept
    it, in just this version: `instar plugin update` looks whether there is another.
    """
    check_person(context, "instar plugin")
    found = await _candidate(context, source, ref, name)
    known = PluginFolders(context.paths).installed().get(found.installed.name)
    if known is not None and known.source != found.installed.source:
        raise Failure(
            f"there is a plugin {known.name} already, from {known.source} (instar plugin remove {known.name})"
        )
    await _accepted(context, found, yes=yes, as_json=as_json)


@command.command("list")
@json_option
@door
async def list_(context: Context, as_json: bool) -> None:
    """List the installed plugins: where each came from, and whether a folder changed since."""
    found = [
        await _state(context, one) for _, one in sorted(PluginFolders(context.paths).installed().items())
    ]
    otherwise = "no plugin is installed (instar plugin add FOLDER)"
    print_list(found, _line, as_json=as_json, otherwise=otherwise)


@command.command()
@click.argument("names", nargs=-1, shell_complete=complete.plugin_folders)
@_yes
@json_option
@door
async def update(context: Context, names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Read NAMES (all, if there is none) again from where they came, show what changed, and ask."""
    check_person(context, "instar plugin")
    installed = PluginFolders(context.paths).installed()
    for name in names or sorted(installed):
        known = installed.get(name) or _unknown(name, installed)
        found = await _candidate(context, known.source, known.ref, known.entry)
        if found.installed.name != name:
            raise Failure(f"{known.source} is another plugin now: {found.installed.name}, not {name}")
        if found.installed.digest != known.digest:
            await _accepted(context, found, yes=yes, as_json=as_json)
        elif as_json:
            print_json({"plugin": name, "changed": False, "commit": known.commit, "digest": known.digest})
        else:
            echo(f"{name} is as it was accepted ({_pin(known)})")


@command.command()
@click.argument("name", shell_complete=complete.plugin_folders)
@json_option
@door
def remove(context: Context, name: str, as_json: bool) -> None:
    """Remove the plugin NAME, its files and what its programs kept."""
    check_person(context, "instar plugin")
    plugins = PluginFolders(context.paths)
    if name not in plugins.installed():
        _unknown(name, plugins.installed())
    plugins.remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        echo(f"removed: {name}")


def _unknown(name: str, installed: dict[str, InstalledPlugin]) -> NoReturn:
    raise Failure(f"there is no plugin {name!r}; there are: {', '.join(sorted(installed)) or 'none'}", 2)


async def _candidate(context: Context, source: str, ref: str, name: str) -> PluginCandidate:
    note(f"reading {one_line(source)}")
    try:
        return await candidate(source, context.directory, ref, name)
    except PluginFolderError as error:
        raise Failure(str(error)) from None


async def _accepted(context: Context, found: PluginCandidate, *, yes: bool, as_json: bool) -> None:
    """Show what a plugin brings and what changed of it, ask, and use it from now on."""
    plugins = PluginFolders(context.paths)
    installed, files = found
    before = plugins.kept(installed.name)
    for line in brings(installed, files, context.environment):
        echo(line, err=as_json)
    if before:
        echo(f"changed: {', '.join(name for name, _ in _changes(before, files)) or 'nothing'}", err=as_json)
    if not yes:
        if not person.is_there():
            raise Failure(
                f"a person accepts a plugin: type it in a terminal, or say --yes ({_pin(installed)})"
            )
        question = f"Use {installed.name}? What it brings may then run on this machine."
        shown = "".join(text for _, text in _changes(before, files))
        if not await person.decided(question, lambda: harmless(shown)):
            raise Failure(f"{installed.name} was not added; nothing changed")
    await asyncio.to_thread(plugins.put, installed, files)
    if as_json:
        print_json(
            {
                "plugin": installed.name,
                "changed": True,
                "commit": installed.commit,
                "digest": installed.digest,
            }
        )
    else:
        echo(f"{'updated' if before else 'added'}: {installed.name} ({_pin(installed)})")


def _pin(installed: InstalledPlugin) -> str:
    return f"commit {installed.commit[:12]}" if installed.commit else f"content {installed.digest[:12]}"


def _changes(before: Files, after: Files) -> Iterator[tuple[str, str]]:
    """Yield each file that is not as before, with its difference."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        try:
            first, second = (one.data.decode().splitlines(keepends=True) if one else [] for one in (old, new))
        except UnicodeDecodeError:
            yield name, f"{name}: not a text\n"
            continue
        lines = difflib.unified_diff(first, second, f"accepted/{name}", name)
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        yield name, text or f"{name}: whether it may be run changed\n"


async def _state(context: Context, one: InstalledPlugin) -> dict[str, Any]:
    """A plugin, and whether its folder is as it was accepted; a repository is asked by `update` alone."""
    state = "pinned"
    if not one.commit:
        try:
            now = (await candidate(one.source, context.directory, one.ref, one.entry)).installed.digest
            state = "as accepted" if now == one.digest else "changed since"
        except PluginFolderError:
            state = "source is gone"
    shown = {key: value for key, value in msgspec.structs.asdict(one).items() if key in _SHOWN}
    return {**shown, "version": one.version, "state": state}


def _line(one: dict[str, Any]) -> str:
    pin = f"commit {one['commit'][:12]}" if one["commit"] else one["state"]
    todo = f"; instar plugin update {one['name']}" if one["state"] == "changed since" else ""
    return f"{one['name']}  {one['version'] or '-'}  {one_line(one['source'])} ({pin}{todo})"


# -- what a plugin brings -----------------------------------------------------------------------------


def brings(installed: InstalledPlugin, files: Files, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each thing that a person accepts with a plugin: what runs, and what it may do unasked."""
    yield one_line(
        f"{installed.name} {installed.version} {short(str(installed.manifest.get('description') or ''))}"
    )
    with tempfile.TemporaryDirectory(prefix="instar-plugin-") as folder:
        for name, file in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        plugin, problems = PluginFolder(installed, Path(folder), Path(folder, "data")), list[str]()
        lines = [
            *map(_skill, plugin_skills(plugin, problems).values()),
            *(line for layer in plugin_agents(plugin, problems) for line in _agents(layer)),
            *(line for layer in layers(plugin, environment, problems) for line in _runs(layer)),
        ]
        left = {what for name, what in _NOT_TAKEN.items() if name in installed.manifest or _has(files, name)}
        lines += [f"not taken: {what}" for what in sorted(left) if installed.format == "claude"]
        lines += [f"left out: {problem}" for problem in problems]
    yield from (one_line(line.replace(f"{folder}/", "")) for line in lines)


def _has(files: Files, name: str) -> bool:
    return any(path == name or path.startswith(f"{name}/") for path in files)


def _skill(skill: Skill) -> str:
    unasked = ", ".join(f"{rule.permission} {rule.pattern}".removesuffix(" *") for rule in skill.grants)
    shells = "".join(f"; it runs {shell}" for shell in SHELL.findall(skill.text))
    kind = "skill" if skill.path.name == NAME else "command"
    return f"{kind} {skill.name}{f'; unasked while it is at work: {unasked}' if unasked else ''}{shells}"


def _agents(layer: Layer) -> Iterator[str]:
    for name, block in layer.data["agent"].items():
        without = ", ".join(block.get("permission") or ())
        yield f"agent {name}{f'; without {without}' if without else ''}"


def _runs(layer: Layer) -> Iterator[str]:
    for event, groups in as_map(layer.data.get("hooks")).items():
        for group in map(as_map, groups if isinstance(groups, list) else ()):
            for rule in map(as_map, group.get("hooks") or ()):
                what = rule.get("command") or rule.get("url") or rule.get("prompt") or ""
                words = " ".join(map(str, [what, *(rule.get("args") or ())]))
                yield f"rule {event} {group.get('matcher') or '*'}: {rule.get('type', 'command')} {words}"
    for name, server in as_map(layer.data.get("mcp")).items():
        yield f"MCP server {name}: {server.get('url') or ' '.join(server['command'])}"
