"""npm packages for JavaScript plugins: installed once into instar's cache, never with install scripts.

Each lies in a folder of its own with its lock. What was installed is compared with what the lock says, and the lock
with a digest that was kept, each time that it is used; a folder that differs is installed anew.
"""

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin.locate import LoadError, PluginLocation, npm_name
from instar.process import ProcessError
from instar.sandbox.model_process import Children
from instar.wire.document import atomic_write, locked

OFFERED: Final = {
    "esbuild": "esbuild@0.28.2",
    "zod": "zod@4.6.7",
    "@opencode-ai/sdk": "@opencode-ai/sdk@1.18.33",
}
"""What plugins may count on, and the host itself needs, where they do not bring it: name to spec."""
BUN: Final = "bun@1.4.5"
"""What runs plugins that node cannot run."""
_OPENCODE: Final = OFFERED["@opencode-ai/sdk"].rpartition("@")[2]
"""The opencode whose interface plugins find here, and against which they say what they need."""
_RANGE: Final = 256
"""Characters of the longest range of versions that is looked at; npm's own limit of a version."""
_TIMEOUT: Final = 300.0
_SHOWN: Final = 300
_NOTE: Final = "instar.json"
_INSTALL: Final = (
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-progress",
    "--loglevel=error",
)


class Packages:
    """The packages of JavaScript plugins, under `folder`; npm runs as one of `children`."""

    def __init__(self, folder: Path, children: Children, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._children = children
        self._environment = environment
        self._installing: dict[str, asyncio.Task[Path]] = {}
        # What runs for the model must not change code that runs at the next start.
        folder.mkdir(parents=True, exist_ok=True)
        children.guard(readonly=[folder])

    async def installed(self, spec: str) -> Path:
        """Return the folder in whose ``node_modules`` a package is, installing it if need be. Raises `LoadError`."""
        task = self._installing.get(spec)
        if task is None or (task.done() and task.exception() is not None):
            task = self._installing[spec] = asyncio.create_task(self._installed(spec), name=f"install {spec}")
        return await asyncio.shield(task)

    async def target(self, place: PluginLocation) -> Path:
        """Return the file or the package's folder that a plugin is, installed if need be. Raises `LoadError`."""
        if place.path is not None:
            return place.path
        package = await self.installed(place.module) / "node_modules" / place.name
        demand_host(package)
        return package

    async def offered(self, name: str) -> Path:
        """Return the folder in whose ``node_modules`` one of `OFFERED` is. Raises `LoadError`."""
        if name not in OFFERED:
            raise LoadError(f"{name} is not offered to plugins; its package.json must name it")
        return await self.installed(OFFERED[name])

    async def bun(self) -> Path:
        """Return the program of `BUN`. Raises `LoadError`."""
        await self.installed(BUN)
        if (found := self.kept_bun()) is None:
            raise LoadError(f"{BUN} has no program for this machine: install bun")
        found.chmod(0o755)
        return found

    def kept_bun(self) -> Path | None:
        """Return the program of `BUN` where it was installed before."""
        folder = self._folder_of(BUN)
        return next(folder.glob("node_modules/@oven/bun-*/bin/bun"), None) if _is_sound(folder, BUN) else None

    async def close(self) -> None:
        """End what is being installed."""
        for task in self._installing.values():
            task.cancel()
        await asyncio.gather(*self._installing.values(), return_exceptions=True)

    def _folder_of(self, spec: str) -> Path:
        return self._folder / re.sub(r"[^A-Za-z0-9.@_-]", "_", spec)

    async def _installed(self, spec: str) -> Path:
        folder = self._folder_of(spec)
        if await asyncio.to_thread(_is_sound, folder, spec):
            return folder
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
        try:
            (made / "package.json").write_text(
                json.dumps({"name": "instar-plugins", "private": True}), "utf-8"
            )
            await self._npm(made, spec)
            await asyncio.to_thread(_accept, made, spec, folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, made, ignore_errors=True)
        return folder

    async def _npm(self, folder: Path, spec: str) -> None:
        npm = shutil.which("npm", path=self._environment.get("PATH"))
        if npm is None:
            raise LoadError(f"{spec} is an npm package, and there is no npm on PATH: install node with npm")
        shield = await self._children.shield()
        own = [path for path in shield.readonly if path != self._folder]
        confine = msgspec.structs.replace(shield, readonly=tuple(own))
        try:
            done = await self._children.run(
                [npm, *_INSTALL, spec],
                cwd=folder,
                env=self._children.environment(self._environment),
                timeout=_TIMEOUT,
                confine=confine,
            )
        except ProcessError as error:
            raise LoadError(f"{spec} could not be installed: {error}") from error
        if done.timed_out:
            raise LoadError(f"{spec} could not be installed: npm took longer than {_TIMEOUT:g} s")
        if done.code != 0:
            raise LoadError(_failed(spec, done.stderr.decode("utf-8", "replace")))


def demand_host(package: Path) -> None:
    """Raise `LoadError` for a package that needs another opencode than the one whose interface it finds here."""
    try:
        engines = json.loads((package / "package.json").read_text("utf-8")).get("engines")
    except (OSError, ValueError, AttributeError):
        return
    wanted = engines.get("opencode") if isinstance(engines, dict) else None
    if not isinstance(wanted, str):
        return
    wanted = " ".join(wanted.split())
    if not _fits(wanted):
        shown = wanted[:_RANGE]
        raise LoadError(f"it needs opencode {shown}, and instar offers plugins what {_OPENCODE} does")


def _fits(wanted: str) -> bool:
    """Whether the opencode that is offered is in a range of npm's; in one that cannot be read it is not."""
    # Here, since few packages name an opencode.
    from nodesemver import satisfies  # type: ignore[import-untyped]

    # Its expressions take a time that grows with the square of the length.
    return len(wanted) <= _RANGE and bool(satisfies(_OPENCODE, wanted))


def _failed(spec: str, said: str) -> str:
    name = npm_name(spec)
    if "E404" in said:
        return f"npm knows no package {name}: look at its spelling, or name a file by its path"
    if "ETARGET" in said or "ENOVERSIONS" in said:
        return f"npm has no version of {name} that fits {spec}"
    lines = [line for line in said.splitlines() if line.strip() and "code E" not in line]
    text = " ".join(" ".join(lines).replace("npm error", "").split())[:_SHOWN]
    return f"{spec} could not be installed by npm: {text or 'it did not say why'}"


def _accept(made: Path, spec: str, folder: Path) -> None:
    """Check what npm installed and put it in its place. Raises `LoadError`."""
    packages = _locked(made)
    if packages is None:
        raise LoadError(f"{spec} could not be installed: npm wrote no lock that can be read")
    open_ones = [
        name
        for name, one in packages.items()
        if str(one.get("resolved", "")).startswith("http") and not one.get("integrity")
    ]
    if open_ones:
        raise LoadError(
            f"{spec} was not installed: npm's registry gives no integrity for {', '.join(open_ones)}"
        )
    if not _has_all(made, packages):
        raise LoadError(f"{spec} was not installed: not all that its lock names is there")
    atomic_write(made / _NOTE, json.dumps({"spec": spec, "lock": _digest(made)}).encode())
    try:
        with locked(folder.parent):
            # Somebody else may have installed it meanwhile, and a child be reading it: that one stays.
            if _is_sound(folder, spec):
                return
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    except OSError as error:
        raise LoadError(f"{spec} could not be installed: {error}") from error


def _is_sound(folder: Path, spec: str) -> bool:
    try:
        note = json.loads((folder / _NOTE).read_text("utf-8"))
        return note == {"spec": spec, "lock": _digest(folder)} and _has_all(folder, _locked(folder) or {})
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()


def _locked(folder: Path) -> dict[str, dict[str, Any]] | None:
    """The packages of a folder's lock by their places, None when there is none that can be read."""
    try:
        packages = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
        return {place: one for place, one in packages.items() if place}
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _has_all(folder: Path, packages: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether each package of the lock is there in its version; one for another machine need not be."""
    for place, one in packages.items():
        described = folder / place / "package.json"
        if not described.is_file():
            if one.get("optional") or one.get("peer"):
                continue
            return False
        if json.loads(described.read_text("utf-8")).get("version") != one.get("version"):
            return False
    return bool(packages)
