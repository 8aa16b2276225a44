"""Published npm plugins, each in a project of its own, and what came of it: tools, agents, commands, words, files."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.clients.programs import installed
from tests.clients.published import PROGRAMS
from tests.conformance.hosts import Host
from tests.conformance.model import Model

Plain = dict[str, Any]

READ: tuple[str, Plain] = ("read", {"filePath": "notes.txt"})
PLUGINS: dict[str, tuple[str, Plain]] = {
    "oh-my-opencode@4.19.4": ("session_list", {}),
    "@tarquinen/opencode-dcp@3.1.14": ("compress", {}),
    "opencode-supermemory@2.0.10": ("supermemory", {"mode": "help"}),
    "opencode-beads@0.3.2": READ,
    "opencode-wakatime@1.3.9": ("write", {"filePath": "new.txt", "content": "new\n"}),
    "opencode-gemini-auth@1.3.8": READ,
    "opencode-vibeguard@0.1.0": READ,
    "@sureshsankaran/opencode-destructive-check@1.0.5": ("destructive-check-status", {}),
    # The last ones need bun: instar installs one, and runs by it from then on.
    "opencode-pty@0.1.3": ("pty_list", {}),
    "opencode-skills@0.1.7": ("skills_tidy", {}),
}
"""Each plugin with the call that the model makes first."""

BUN = "instar/npm/bun@1.4.5"
SKILL = "---\nname: tidy\ndescription: how to tidy a room up well\n---\nPut things away.\n"
_WAKATIME = "[settings]\napi_key = waka_00000000-0000-4000-8000-000000000000\n"
_OWN = re.compile(
    r"(data|state|cache)/(opencode|instar)/|config/opencode/package|\.opencode/(\.gitignore|package)"
    r"|opencode\.json$"
)
"""Files that the programs write for themselves."""
_MASKED = re.compile(r"\b(ses|msg|prt)_[0-9A-Za-z_]{3,}\b|\b[0-9a-f]{8}\b")
_SKIPPED = (".git", "node_modules", "skills", "log")


def answers() -> dict[str, list[Plain]]:
    """What the model says, by the directory's name."""
    calls = {"none": READ, **{_short(spec): call for spec, call in PLUGINS.items()}}
    return {name: [{"tools": [call]}, {"text": "Done."}] for name, call in calls.items()}


def _short(spec: str) -> str:
    return re.sub(r"[^a-z-]", "", spec.rpartition("@")[0])


def instar(folder: Path, engine: str) -> Host:
    """`instar serve` by node, or by the bun that a plugin had it install before."""
    cache = installed() / "tried"
    if engine == "node":
        shutil.rmtree(cache / BUN, ignore_errors=True)
    return _started([sys.executable, "-m", "instar"], folder, cache)


def opencode(folder: Path) -> Host:
    """The real `opencode serve`."""
    program = str(installed() / "node_modules" / ".bin" / "opencode")
    return _started([program], folder, installed() / "tried")


def _started(command: list[str], folder: Path, cache: Path) -> Host:
    folder.mkdir()
    # What plugins keep there from one run would change the next one.
    for other in cache.glob("*"):
        if other.name not in ("instar", "opencode"):
            shutil.rmtree(other)
    models = folder / "models.json"
    models.write_text("{}")
    for name, text in PROGRAMS.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("npm_config_", "NODE_EXTRA"))
    }
    home = {"npm_config_userconfig": Path.home() / ".npmrc", "npm_config_cache": Path.home() / ".npm"}
    return Host(
        command,
        folder,
        None,
        **{name: str(path) for name, path in home.items()},
        **kept,
        XDG_CACHE_HOME=str(cache),
        PATH=f"{folder / 'bin'}:{os.environ['PATH']}",
        OPENCODE_MODELS_PATH=str(models),
        OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
    )


def played(host: Host, model: Model) -> dict[str, Plain]:
    """Play every plugin; return what each added to a project without any."""
    (host.folder / "home" / ".wakatime.cfg").write_text(_WAKATIME)
    base = _played(host, model, "none", [])
    return {spec: _added(_played(host, model, _short(spec), [spec]), base) for spec in PLUGINS}


def _played(host: Host, model: Model, name: str, specs: list[str]) -> Plain:
    home = host.folder / "home"
    before = _files(home)
    directory = host.directory(name, {**model.settings(name), "plugin": specs})
    skill = directory / ".opencode" / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    asked: Plain = {"params": {"directory": str(directory)}, "timeout": 300}
    agents = host.http.get("/agent", **asked).json()
    commands = host.http.get("/command", **asked).json()
    session = host.http.post("/session", json={"title": "named"}, **asked).json()["id"]
    for text in ("first", "second"):
        body = {"parts": [{"type": "text", "text": text}]}
        assert host.http.post(f"/session/{session}/message", json=body, **asked).status_code == 200
    requests = [one.body for one in model.requests[name] if one.purpose == "turn"]
    found = {
        "tools": {tool["function"]["name"]: tool["function"] for tool in requests[0]["tools"]},
        "agents": {one["name"]: 1 for one in agents},
        "commands": {one["name"]: 1 for one in commands},
        "system": dict.fromkeys(_said(requests[0], system=True), 1),
        "messages": list(_said(requests[-1], system=False)),
        "files": {
            file: 1 for file in [*(_files(home) - before), *_files(directory)] if not _OWN.search(file)
        },
    }
    text = json.dumps(found).replace(str(directory), "DIRECTORY").replace(str(host.folder), "FOLDER")
    plain: Plain = json.loads(_MASKED.sub("ID", text))
    return plain


def _said(request: Plain, *, system: bool) -> Iterator[str]:
    for message in request["messages"]:
        if (message["role"] == "system") == system:
            text = str(message.get("content") or "")
            yield from text.splitlines() if system else [f"{message['role']}: {text}"]


def _files(folder: Path) -> set[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if not set(_SKIPPED) & set(path.parts)}


def _added(found: Plain, base: Plain) -> Plain:
    """What is there beside what was there without the plugin; of messages all."""
    return {
        kind: found[kind]
        if kind == "messages"
        else {k: v for k, v in found[kind].items() if k not in base[kind]}
        for kind in found
    }


def differing(one: dict[str, Plain], other: dict[str, Plain]) -> set[tuple[str, str]]:
    """The plugins, each with a kind, of which the two differ."""
    return {(spec, kind) for spec in one for kind in one[spec] if one[spec][kind] != other[spec][kind]}


def names(found: Iterable[str]) -> str:
    """The names in a cell of a table: the first few, and how many more there are."""
    all_ = sorted(found)
    more = f" and {len(all_) - 3} more" if len(all_) > 4 else ""
    return ", ".join(f"`{name}`" for name in (all_[:3] if more else all_)) + more or "–"
