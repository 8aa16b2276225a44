"""What is guarded, as real paths: hidden, read-only, writable again, and the folders above that must stay in place."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.settings.paths import Paths

_SETTINGS: Final = ("*.json", "*.jsonc")
_SOCKETS: Final = (
    *(
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/crio/crio.sock",
    ),
    *("/run/snapd.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"),
    *("/run/libvirt/libvirt-sock", "/run/atd.sock"),
)
_OF_ROOT: Final = ("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/io.systemd.Manager")
_OF_PERSON: Final = (".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock")
_SPOOLS: Final = ("/var/spool/cron", "/var/spool/at", "/etc/cron.d", "/etc/crontab", "/etc/ld.so.preload")
_KERNEL: Final = ("/sys", "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")


class Guard(msgspec.Struct, frozen=True):
    """Real paths, each list sorted from the shallow to the deep.

    `anchors` are folders above a guarded path that could be renamed away by whoever may write beside them. `gaps`
    says, one line each, which path is reached through a link that can be replaced: that is not held.
    """

    hidden: tuple[Path, ...]
    readonly: tuple[Path, ...]
    writable: tuple[Path, ...]
    anchors: tuple[Path, ...]
    gaps: tuple[str, ...]


class Places(msgspec.Struct, frozen=True):
    """What `Shield` is given to guard of instar's own."""

    hidden: tuple[Path, ...]
    readonly: tuple[Path, ...]
    writable: tuple[Path, ...]


def own_places(paths: Paths) -> Places:
    """Return the places of instar itself for a shield.

    The data folder (store, trust, keys, password, snapshots) and the log are hidden; in it the worktrees of sessions
    stay writable and long tool outputs readable. The home configuration folders are read-only, because skills that
    stand there bring files for the model, and the settings files in them are hidden, because they may hold keys.
    """
    settings = [
        file
        for home in paths.config_homes
        for pattern in _SETTINGS
        for file in sorted(home.glob(pattern))
        if file.is_file()
    ]
    return Places(
        hidden=(paths.data, paths.state, *settings),
        readonly=(*paths.config_homes, paths.tool_output),
        writable=(paths.worktrees,),
    )


def guard(hidden: Iterable[Path], readonly: Iterable[Path], writable: Iterable[Path]) -> Guard:
    """Resolve the paths and find what must be held with them. Creates nothing.

    A path below a hidden one is left out, unless it is readable or writable again by being named itself.
    """
    links: dict[Path, bool] = {}
    lists = [[_real(path, links) for path in paths] for paths in (hidden, readonly, writable)]
    gaps = tuple(dict.fromkeys(gap for paths in lists for _, found in paths for gap in found))
    real = [_sorted(path for path, _ in paths) for paths in lists]
    held = {*real[0], *real[1]}
    above = {folder for path in held for folder in path.parents if folder != folder.parent}
    anchors = _sorted(
        folder
        for folder in above
        if held.isdisjoint((folder, *folder.parents)) and folder.is_dir() and _movable(folder)
    )
    return Guard(real[0], real[1], real[2], anchors, gaps)


def doors(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return what is there of the sockets of services that would run something for the person, outside every shield."""
    uid = os.getuid()
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}")
    terminals = [Path(environment.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{uid}", Path(f"/run/tmux/{uid}")]  # noqa: S108
    screens = [Path("/run/screen"), Path("/tmp/.X11-unix")]  # noqa: S108
    docker = environment.get("DOCKER_HOST", "")
    named = [Path(docker.removeprefix("unix://"))] if docker.startswith("unix:///") else []
    listed = [Path(path) for path in (*_SOCKETS, *(_OF_ROOT if uid == 0 else ()))]
    listed += [home / path for path in _OF_PERSON]
    private = [runtime] if _is_private(runtime, home) else []
    found = (path for path in (*private, *terminals, *screens, *named, *listed) if path.exists())
    return _sorted(path.resolve() for path in found)


def kernel_switches() -> tuple[Path, ...]:
    """Return what root may write to change the machine around a shield; empty for everybody else."""
    if os.geteuid() != 0:
        return ()
    return tuple(path for path in map(Path, (*_KERNEL, *_SPOOLS)) if path.exists())


def below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def _is_private(runtime: Path, home: Path) -> bool:
    """Whether this is a runtime folder as XDG has it; a mistaken variable must not hide /tmp or the home folder."""
    try:
        status = runtime.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o077 and not home.is_relative_to(runtime)


def _movable(folder: Path) -> bool:
    return os.access(folder.parent, os.W_OK)


def _real(path: Path, links: dict[Path, bool]) -> tuple[Path, list[str]]:
    """The real path, and the links on the way that somebody could replace; `links` remembers what is one."""
    made, gaps = Path("/"), []
    for part in path.absolute().parts[1:]:
        link = made / part if part != ".." else made.parent
        if link not in links:
            links[link] = link.is_symlink()
        if links[link]:
            if os.access(made, os.W_OK):
                gaps.append(f"{path}: {link} is a link that can be replaced; name the folder itself")
            link = link.resolve()
        made = link
    return made, gaps


def _sorted(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(set(paths), key=lambda path: (len(path.parts), path)))
