"""What a person meets on a system that is not Linux: played on Linux, without what Linux alone has."""

import subprocess
import sys

# Modules of the standard library read the platform when they are imported: those come first.
WITHOUT = """\
import asyncio, ctypes, multiprocessing.connection, os, sysconfig, types, urllib.request, uuid, sys

sysconfig.get_config_vars()
sys.modules["_scproxy"] = types.SimpleNamespace(_get_proxy_settings=dict, _get_proxies=dict)
sys.platform = "darwin"
for name in ("O_PATH", "memfd_create", "pidfd_open", "sched_getaffinity"):
    delattr(os, name)


def library(kind):
    class Library(kind):
        def __getattr__(self, name):
            if name in ("prctl", "capget", "capset"):
                raise AttributeError(name)
            return super().__getattr__(name)

    return Library


ctypes.CDLL, ctypes.PyDLL = library(ctypes.CDLL), library(ctypes.PyDLL)
"""


def test_where_nothing_can_be_confined_turns_run_and_the_agent_changes_nothing(clean_environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    environment = {**clean_environment, "PYTHONPATH": str(tmp_path)}

    def instar(*words):
        command = [sys.executable, "-m", "instar", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    answered = instar("run", "--model", "scripted/echo", "hello")
    assert (answered.returncode, answered.stdout) == (0, "hello\n"), answered.stderr
    assert (
        "sandbox   none, so evolve changes nothing unless evolve.unsafe: only Linux"
        in instar("doctor").stdout
    )
