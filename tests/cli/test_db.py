"""`instar db start`, `stop` and `status`: a PostgreSQL server of one's own, as a user who is not root has it."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from tests import somebody
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

INSTAR = [sys.executable, "-m", "instar"]


class Person:
    """Somebody with a home and a data folder."""

    def __init__(self, root: Path, data: str = "data") -> None:
        self.home = somebody.own(root / "home")
        self.data = somebody.own(root / data)
        self.server = self.data / "postgresql"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "INSTAR_DATA": str(self.data),
            "OPENAI_API_KEY": "of nobody else",
        }

    def run(self, *words: str, code: int = 0, **more: str) -> str:
        """Run a command of instar's, and return what it printed."""
        return self.shell(*somebody.command(*INSTAR, *words), code=code, **more)

    def shell(self, *words: str, code: int = 0, **more: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.home,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    def pid(self) -> int:
        return int(json.loads(self.run("db", "status", "--json"))["pid"])

    def stop(self) -> None:
        self.run("db", "stop")


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    made = Person(tmp_path)
    yield made
    made.stop()


def test_a_server_of_ones_own_is_started_used_seen_and_stopped(person: Person) -> None:
    assert "never started" in person.run("db", "status", code=1)
    (url,) = [one for one in person.run("db", "start").splitlines() if one.startswith("postgresql://")]
    assert "ran already" in person.run("db", "start")
    asked = person.run("run", "-m", "scripted/echo", "hello", INSTAR_DATABASE="local")
    assert "hello" in asked
    for name in ("local", url):
        assert len(json.loads(person.run("session", "list", "--json", INSTAR_DATABASE=name))) == 1
    state = json.loads(person.run("db", "status", "--json"))
    assert (state["running"], state["url"]) == (True, url)
    assert b"of nobody else" not in Path(f"/proc/{state['pid']}/environ").read_bytes()
    assert (
        person.server.stat().st_mode & 0o777,
        person.server.joinpath("password").stat().st_mode & 0o777,
    ) == (
        0o700,
        0o600,
    )
    # The password is needed, and nobody else's server is believed.
    for spoilt in (url.replace("/password", "/no-password"), url.replace("requirepeer=", "requirepeer=x")):
        assert "instar db start" in person.run("session", "list", INSTAR_DATABASE=spoilt, code=1)
    assert "ok       postgresql" in person.run("doctor", INSTAR_DATABASE="local")
    person.run("db", "stop")
    assert "no server ran" in person.run("db", "stop")
    assert "instar db start" in person.run("session", "list", INSTAR_DATABASE="local", code=1)
    assert "problem  postgresql" in person.run("doctor", INSTAR_DATABASE="local", code=1)
    person.run("db", "start")
    assert len(json.loads(person.run("session", "list", "--json", INSTAR_DATABASE="local"))) == 1


def test_a_server_that_was_killed_starts_again_though_another_process_has_its_number(person: Person) -> None:
    person.run("db", "start")
    person.run("run", "-m", "scripted/echo", "hello", INSTAR_DATABASE="local")
    killed = person.pid()
    os.killpg(killed, signal.SIGKILL)
    wait_until(lambda: json.loads(_status(person))["running"] is False)
    other = subprocess.Popen(somebody.command("sleep", "600"))
    try:
        for left in (person.server / "data" / "postmaster.pid", person.server / ".s.PGSQL.5432.lock"):
            with contextlib.suppress(FileNotFoundError):  # a server that notices removes one
                left.write_text(left.read_text().replace(str(killed), str(other.pid)))
        assert "no server ran" in person.run("db", "stop")
        person.run("db", "start")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert len(json.loads(person.run("session", "list", "--json", INSTAR_DATABASE="local"))) == 1


def _status(person: Person) -> str:
    done = subprocess.run(
        somebody.command(*INSTAR, "db", "status", "--json"),
        cwd=person.home,
        env=person.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_two_starts_at_once_make_one_server(person: Person) -> None:
    both = [
        subprocess.Popen(
            somebody.command(*INSTAR, "db", "start"),
            cwd=person.home,
            env=person.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=PATIENCE) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert len({out for out, _ in said}) == 1
    assert sorted("ran already" in err for _, err in said) == [False, True]


def test_a_data_folder_with_a_long_and_strange_name_has_a_server_whose_socket_is_elsewhere(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path, "dä$HOME\"'%, " + 120 * "x")
    (url,) = [one for one in person.run("db", "start").splitlines() if one.startswith("postgresql://")]
    place = Path(url.partition("host=")[2].partition("&")[0])
    try:
        assert place.parent == Path("/tmp")
        person.run("run", "-m", "scripted/echo", "hello", INSTAR_DATABASE="local")
        person.stop()
        # Somebody else was faster, or let others in.
        place.chmod(0o777)
        assert "others can write there" in person.run("db", "start", code=1)
        place.rmdir()
        place.symlink_to(person.home)
        assert "others can write there" in person.run("db", "start", code=1)
    finally:
        place.unlink()


def test_what_is_missing_is_named_with_what_to_do(person: Person) -> None:
    hide = 'mount -t tmpfs none /usr/lib/postgresql && exec "$@"'
    apart = (
        ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Um", "--map-current-user", "--keep-caps"]
    )
    absent = person.shell(
        *apart,
        "sh",
        "-c",
        hide,
        "sh",
        *somebody.command(*INSTAR, "db", "start"),
        code=1,
        PATH="/usr/bin:/bin",
    )
    assert "apt install postgresql (" in absent
    assert "brew install postgresql@17" in absent
    person.run("db", "start")
    person.run("db", "stop")
    version = person.server / "data" / "PG_VERSION"
    kept = version.read_text()
    version.write_text("9\n")
    assert "PostgreSQL 9 is not installed here: apt install postgresql-9 (" in person.run(
        "db", "start", code=1
    )
    version.write_text(kept)
    settings = person.server / "data" / "postgresql.conf"
    settings.write_text(settings.read_text() + "nonsense = 1\n")
    failed = person.run("db", "start", code=1)
    assert "contains errors" in failed
    assert str(person.server / "server.log") in failed


def test_root_is_told_who_may_start_it(tmp_path: Path) -> None:
    person = Person(tmp_path)
    apart = [] if os.geteuid() == 0 else ["unshare", "-r"]
    said = person.shell(*apart, *INSTAR, "db", "start", code=1)
    assert said.startswith("instar: PostgreSQL does not run as root. Be another user")


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_a_command_of_the_model_cannot_log_in(person: Person, level: str) -> None:
    person.run("db", "start")
    url = json.loads(person.run("db", "status", "--json"))["url"]
    text = f"import psycopg; psycopg.connect({url!r}); print('IN')"
    attempt = f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}; cat {shlex.quote(str(person.server))}/password"
    script = somebody.own(person.home / "work") / "script.txt"
    script.write_text(f"== turn\ntool: bash {json.dumps({'command': attempt})}\n== turn\ntext: over\n")
    settings = {"permission": "allow", "shield": {"level": level}}
    said = person.shell(
        *INSTAR,
        "run",
        "-m",
        "scripted/x",
        "--format",
        "json",
        "go",
        INSTAR_SCRIPT=str(script),
        INSTAR_DATABASE=url,
        OPENCODE_CONFIG_CONTENT=json.dumps(settings),
    )
    assert "OperationalError" in said
    assert "IN\\n" not in said
    assert (person.server / "password").read_text().strip() not in said


def test_workers_go_on_when_the_server_was_stopped_and_started(person: Person) -> None:
    person.run("db", "start")
    script = somebody.own(person.home) / "script.txt"
    script.write_text('== when ""\ntext: {{user}}\n')
    environment = {**person.environment, "INSTAR_SCRIPT": str(script), "INSTAR_SERVER_PASSWORD": "word"}
    serve = ["serve", "--port", "0", "--grace", "0", "--workers", "2", "--database", "local"]
    with ExitStack() as stack:
        running = stack.enter_context(
            subprocess.Popen(
                somebody.command(*INSTAR, *serve),
                cwd=person.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        try:
            assert running.stdout is not None
            url = running.stdout.readline().rpartition(" ")[2].strip()
            http = stack.enter_context(
                httpx2.Client(base_url=url, auth=("opencode", "word"), timeout=PATIENCE)
            )
            session = http.post("/session", json={}).json()["id"]

            def ask(text: str) -> int:
                model = {"providerID": "scripted", "modelID": "x"}
                body = {"model": model, "parts": [{"type": "text", "text": text}]}
                return http.post(f"/session/{session}/message", json=body).status_code

            assert ask("first") == 200
            assert json.loads(person.run("db", "status", "--json"))["workers"] == 2
            person.run("db", "stop")
            assert ask("nobody saves this") >= 400
            person.run("db", "start")
            wait_until(lambda: ask("second") == 200)
            said = http.get(f"/session/{session}/message").text
            assert '"first"' in said
            assert '"second"' in said
        finally:
            running.terminate()
            running.wait(PATIENCE)
