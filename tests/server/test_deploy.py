"""The files of `deploy/`: what they say is true of the program, and of systemd where it is there."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from instar.server.health import problem

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
UNITS = ["instar.service", "instar-worker@.service", "instar-user.service"]


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",)
    )
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(DEPLOY / name)
    return read


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines)]


def of(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
def test_a_services_command_starts_a_server_that_ends_in_the_time_it_has(serve, name, monkeypatch):
    monkeypatch.setattr("instar.server.health.PATIENCE", 30.0)
    service = unit(name)["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("instar", "serve")
    served = serve(*arguments, "--port", "0")
    assert problem(served.url, {"INSTAR_SERVER_PASSWORD": "correct horse"}) is None
    grace = float(arguments[arguments.index("--grace") + 1])
    assert float(service["TimeoutStopSec"]) > grace + 3, "aborting and closing come after the grace"
    assert served.stop() == 0
    assert "other machines" not in served.errors


@pytest.mark.parametrize("name", UNITS)
def test_a_service_leaves_what_bubblewrap_needs_and_gives_no_rights(name):
    service = unit(name)["Service"]
    assert service["NoNewPrivileges"] == service["RestrictSUIDSGID"] == "yes"
    for hides in (
        "RestrictNamespaces",
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectProc",
        "ProcSubset",
    ):
        assert hides not in service
    if "user" not in name:
        assert service["User"] not in ("", "root")
        assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == ""
        assert service["ProtectSystem"] == "strict"


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_unit(tmp_path, name):
    text = (DEPLOY / name).read_text()
    program = shlex.split(unit(name)["Service"]["ExecStart"])[0]
    there = tmp_path / name
    there.write_text(text.replace(f"ExecStart={program}", f"ExecStart={sys.executable}"))
    # Where there is no systemd there is nobody to ask; the other tests hold the rest.
    asked = shutil.which("systemd-analyze")
    if asked is not None:
        user = ["--user"] if "user" in name else []
        done = subprocess.run(
            [asked, "verify", "--man=no", *user, str(there)],
            env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, [])


def test_the_container_is_not_roots_and_ends_as_the_program_does():
    assert of("USER") == ["1000:1000"]
    names = [name for name, _ in instructions()]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("RUN", "COPY"))
    assert of("STOPSIGNAL") == ["SIGTERM"]
    assert json.loads(of("ENTRYPOINT")[0]) == ["tini", "--", "instar"]


@pytest.mark.slow
def test_the_containers_command_starts_a_server_and_its_check_finds_it_well(serve):
    command, *arguments = json.loads(of("CMD")[0])
    assert command == "serve"
    served = serve(*arguments, "--port", "0")
    _, _, check = of("HEALTHCHECK")[0].partition("CMD ")
    program, *rest = json.loads(check)
    assert program == "python"
    assert rest[-1] == f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}"
    here = f"http://127.0.0.1:{served.url.rpartition(':')[2]}"
    done = subprocess.run(
        [sys.executable, *rest[:-1], here], env={"INSTAR_SERVER_PASSWORD": "correct horse"}, check=False
    )
    assert done.returncode == 0
    grace = float(arguments[arguments.index("--grace") + 1])
    assert grace + 1.5 < 10, "podman and docker kill after ten seconds"


def test_what_the_container_is_built_of_is_there():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for copied in of("COPY"):
        *sources, _ = [word for word in copied.split() if not word.startswith("--")]
        if "--from=build" not in copied:
            assert all((REPOSITORY / source).exists() for source in sources), copied
    (pip,) = (rest for rest in of("RUN") if "pip install" in rest)
    extras = pip.partition("[")[2].partition("]")[0].split(",")
    assert set(extras) <= set(project["optional-dependencies"])
    assert project["readme"] == "README.md"
    version = of("FROM")[0].partition("python:")[2].partition("-")[0]
    assert tuple(map(int, version.split("."))) >= (3, 11)


def test_grafanas_dashboard_shows_every_metric_by_its_labels(serve):
    dashboard = json.loads((DEPLOY / "grafana" / "instar.json").read_text())
    shown = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    served = serve(script='== turn\ntool: bash {"command": "true"}\n== turn\ntext: done\n')
    served.ask(served.session(title="named"))
    text = served.http.get("/instar/metrics").text
    assert set(re.findall(r"\b(?:instar|process)_\w+", shown)) == set(
        re.findall(r"^# TYPE (\w+)", text, re.M)
    )
    # Prometheus adds `instance`; the others have lines once there was such a thing.
    known = {"instance", "event", "action", "outcome", *re.findall(r'[{,](\w+)="', text)}
    grouped = {label for group in re.findall(r"by \(([\w, ]+)\)", shown) for label in group.split(", ")}
    assert grouped <= known
