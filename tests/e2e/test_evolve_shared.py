"""Workers with data of their own share a workspace by a bare repository, and a PostgreSQL database."""

import base64
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.postgresql import cluster
from tests.server.conftest import PASSWORD, Served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "NAME", "test": "NAME_test.sh"}'
echo '{"tools": [{"name": "greet", "description": "Greets.", "parameters": {}}]}' ;;
execute_tool) echo '{"result": "Hello!"}' ;;
# a line between, and another one
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
TEST = "#!/bin/sh\necho '{}' | hooks/NAME.sh execute_tool | grep Hello\n"


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=Eve", "-c", "user.email=eve@example.org")
    return subprocess.run(
        ["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


class Worker:
    """instar on a machine of its own, with its own copy of the workspace."""

    def __init__(self, folder: Path, remote: str, url: str) -> None:
        self.folder, self.workspace, self.remote = folder, folder / "ws", remote
        home = folder / "home"
        (home / ".config" / "instar").mkdir(parents=True)
        self.settings = home / ".config" / "instar" / "instar.json"
        self.settings.write_text(json.dumps({"evolve": {"remote": remote}}))
        (folder / "project").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "INSTAR_DATA": str(folder / "data"),
            "INSTAR_DATABASE": url,
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
        }

    def clone(self) -> "Worker":
        git(self.folder, "clone", "--quiet", "--branch", "main", self.remote, "ws")
        return self

    def type(self, *args: str, script: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        (self.folder / "script.txt").write_text(script)
        done = subprocess.run(
            [sys.executable, "-m", "instar", *args],
            cwd=self.folder / "project",
            env={**self.environment, "INSTAR_SCRIPT": str(self.folder / "script.txt")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.type(
            *("run", "--print-logs", "--workspace", str(self.workspace), "-m", "scripted/x", "hi"),
            script=script,
        )

    def edit(
        self, new: str, name: str = "bot", old: str = "Hello!", then: str = "== turn\ntext: Done.\n"
    ) -> str:
        given = json.dumps({"hook": f"{name}.sh", "oldString": old, "newString": new})
        return self.run(f"== turn\ntool: evolve_hook_edit {given}\n{then}").stderr

    def greets(self, name: str = "bot") -> str:
        """What the script's tool says in a turn."""
        return self.run(
            f"== turn\ntool: {name}_greet {{}}\n== turn\ntext: it says {{{{tool}}}}\n"
        ).stdout.strip()

    def text(self, name: str = "bot") -> str:
        return (self.workspace / "hooks" / f"{name}.sh").read_text()


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started = list[Served]()

    def start(worker: Worker, script: str = "== turn\ntext: Done.\n") -> Served:
        (worker.folder / "script.txt").write_text(script)
        own = {"INSTAR_SERVER_PASSWORD": PASSWORD, "INSTAR_SCRIPT": str(worker.folder / "script.txt")}
        arguments = ["--workspace", str(worker.workspace)]
        started.append(Served(arguments, worker.folder / "project", worker.environment | own))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def epoch(server: Served) -> int:
    return int(server.http.get("/instar/evolve").json()["epoch"])


def tools(server: Served) -> list[str]:
    listed: list[str] = server.http.get("/experimental/tool/ids").json()
    return [one for one in listed if one.startswith("bot_")]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "shared.git")
    return tmp_path / "shared.git"


@pytest.fixture
def worker(tmp_path: Path, bare: Path) -> Callable[..., Worker]:
    url = cluster().database()

    def make(name: str, remote: str = "") -> Worker:
        return Worker(tmp_path / name, remote or str(bare), url)

    return make


def lay_out(worker: Worker) -> None:
    for folder in ("hooks", "tests"):
        (worker.workspace / folder).mkdir(parents=True)
    for name in ("bot", "two"):
        for path, text in ((f"hooks/{name}.sh", BOT), (f"tests/{name}_test.sh", TEST)):
            (worker.workspace / path).write_text(text.replace("NAME", name))
            (worker.workspace / path).chmod(0o755)


def says(worker: Worker) -> str:
    """What the script's tool answers, as it stands."""
    return worker.text().partition('{"result": "')[2].partition('"')[0]


@pytest.fixture
def first(worker: Callable[..., Worker], bare: Path) -> Worker:
    """The worker whose workspace became the shared one."""
    made = worker("first")
    lay_out(made)
    assert made.greets() == "it says Hello!"
    assert git(bare, "rev-parse", "main") == git(made.workspace, "rev-parse", "HEAD")
    return made


def test_what_one_worker_accepted_runs_at_the_next_turn_of_another(
    first: Worker, worker: Callable[..., Worker], bare: Path
) -> None:
    second = worker("second", f"file://{bare}").clone()
    # A path and a URL are two names, and a database knows the repository by its name.
    second.settings.write_text(json.dumps({"evolve": {"remote": str(bare)}}))
    assert second.greets() == "it says Hello!"
    first.edit("Hello, all!")
    assert second.greets() == "it says Hello, all!"
    second.edit("Hello again!", old="Hello, all!")
    assert first.greets() == "it says Hello again!"
    heads = [git(one, "rev-parse", "main") for one in (bare, first.workspace, second.workspace)]
    assert len(set(heads)) == 1


def test_a_server_where_nobody_prompts_uses_a_new_version_within_a_second(
    first: Worker, worker: Callable[..., Worker], serve: Serve
) -> None:
    given = json.dumps({"hook": "bot.sh", "oldString": '"greet"', "newString": '"welcome"'})
    script = f"== turn\ntool: evolve_hook_edit {given}\n== turn\ntext: Done.\n"
    here, there = serve(first, script), serve(worker("second").clone(), script)
    assert [tools(one) for one in (here, there)] == [["bot_greet"], ["bot_greet"]]
    before = epoch(there)
    # Either takes the turn up.
    assert here.ask(here.session(), "go").status_code == 200
    began = time.monotonic()
    wait_until(lambda: [tools(one) for one in (here, there)] == [["bot_welcome"], ["bot_welcome"]])
    assert time.monotonic() - began < 2  # this machine has other work too
    assert epoch(there) == before + 1
    # And back: what a person accepts at the command line beside a server.
    bot = first.workspace / "hooks" / "bot.sh"
    bot.write_text(bot.read_text().replace('"welcome"', '"salute"'))
    first.type("evolve", "--workspace", str(first.workspace), "accept", "--yes")
    began = time.monotonic()
    wait_until(lambda: [tools(one) for one in (here, there)] == [["bot_salute"], ["bot_salute"]])
    assert time.monotonic() - began < 2  # this machine has other work too
    # What a person orders by HTTP is pushed at once too.
    assert there.http.post("/instar/evolve/rollback", json={}).status_code == 200
    wait_until(lambda: tools(here) == ["bot_welcome"])


def test_what_no_gate_accepted_is_not_run_whoever_pushed_it(
    first: Worker, worker: Callable[..., Worker], bare: Path, tmp_path: Path
) -> None:
    second = worker("second").clone()
    assert second.greets() == "it says Hello!"
    good = git(bare, "rev-parse", "main")
    git(tmp_path, "clone", "--quiet", str(bare), "eve")
    script = tmp_path / "eve" / "hooks" / "bot.sh"
    script.write_text(script.read_text().replace("Hello!", "Hello from Eve"))
    git(tmp_path / "eve", "commit", "--quiet", "--all", "-m", "evolve_hook_edit bot.sh\n\nEpoch: 9")
    git(tmp_path / "eve", "push", "--quiet", "origin", "main")
    # A worker that was there meets it when it has something to push.
    said = second.edit("Hello, you!")
    assert "was pushed by no instar on this database" in said
    assert "Eve" not in second.text()
    assert second.greets() == "it says Hello, you!"
    # A worker that is new clones it, and runs none of it.
    third = worker("third").clone()
    assert "Eve" in third.text()
    assert "Eve" not in third.greets()
    assert "Eve" in git(third.workspace, "show", "HEAD:hooks/bot.sh")
    # Set back to what was accepted, the worker's own change is pushed, and runs everywhere.
    git(tmp_path / "eve", "push", "--quiet", "--force", "origin", f"{good}:main")
    assert second.greets() == "it says Hello, you!"
    assert first.greets() == "it says Hello, you!"


def test_a_rejected_push_takes_the_merged_result_through_the_gate(
    first: Worker, worker: Callable[..., Worker], bare: Path
) -> None:
    second = worker("second").clone()
    second.greets()
    away = bare.rename(bare.with_name("away.git"))
    assert "cannot be reached, so this worker goes on with what it has" in second.edit("Hello, two!", "two")
    assert second.greets("two") == "it says Hello, two!"
    away.rename(bare)
    first.edit("Hello, one!")
    # Another file: both go live everywhere.
    assert second.greets() == "it says Hello, one!"
    assert "Hello, two!" in second.text("two")
    assert first.greets("two") == "it says Hello, two!"
    assert "evolve_share two.sh" in git(bare, "log", "--format=%s", "main")


def test_of_two_changes_of_one_file_the_first_that_is_pushed_serves_and_the_other_worker_says_so(
    first: Worker, worker: Callable[..., Worker], bare: Path
) -> None:
    second = worker("second").clone()
    second.greets()
    away = bare.rename(bare.with_name("away.git"))
    second.edit("Hello, mine!")
    away.rename(bare)
    first.edit("Hello, theirs!")
    said = second.run("== turn\ntext: Done.\n").stderr
    assert "hooks/bot.sh was changed by another worker too: its version serves" in said
    assert "Hello, theirs!" in second.text()
    assert "Hello, mine!" in git(second.workspace, "log", "-p", "--all", "--format=")


def test_a_person_accepts_at_one_worker_for_all(first: Worker, worker: Callable[..., Worker]) -> None:
    second = worker("second").clone()
    second.greets()
    script = second.workspace / "hooks" / "bot.sh"
    script.write_text(script.read_text().replace("Hello!", "Hello by hand"))
    second.type("evolve", "--workspace", str(second.workspace), "accept", "--yes")
    assert first.greets() == "it says Hello by hand"


def test_what_a_person_accepts_at_one_worker_is_what_scores_are_compared_with_at_another(
    first: Worker, worker: Callable[..., Worker]
) -> None:
    """The person makes the script shorter: by the eval that is worse than what the second worker saw first."""
    lines = first.workspace / "evals" / "lines"
    lines.write_text("#!/bin/sh\ngrep -c . hooks/bot.sh\n")
    lines.chmod(0o755)
    first.type("evolve", "--workspace", str(first.workspace), "accept", "--yes")
    first.run("== turn\ntext: Done.\n")
    second = worker("second").clone()
    assert "it says Hello!" in second.greets()
    hooks = first.workspace / "hooks" / "bot.sh"
    hooks.write_text(hooks.read_text().replace("# a line between, and another one\n", ""))
    first.type("evolve", "--workspace", str(first.workspace), "accept", "--yes")
    first.run("== turn\ntext: Done.\n")
    assert "evolution=installed" in second.edit("Hi, Hello!")


def test_a_repository_that_was_set_back_brings_no_old_version_back(
    first: Worker, worker: Callable[..., Worker], bare: Path
) -> None:
    old = git(bare, "rev-parse", "main")
    first.edit("Hello, all!")
    first.run("== turn\ntext: Done.\n")
    git(bare, "update-ref", "refs/heads/main", old)
    second = worker("second").clone()
    assert "was set back to" in second.run("== turn\ntext: Done.\n").stderr
    assert second.greets() != "it says Hello!"
    # A worker that has the newer one pushes it with its next change.
    first.edit("Hello, you!", old="Hello, all!")
    assert second.run("== turn\ntext: Done.\n").stdout
    assert second.greets() == "it says Hello, you!"


def test_what_does_not_pass_the_gate_on_the_merged_result_is_dropped_with_the_reason(
    first: Worker, worker: Callable[..., Worker], bare: Path
) -> None:
    second = worker("second").clone()
    second.greets()
    away = bare.rename(bare.with_name("away.git"))
    second.edit("Hello, two!", "two")
    away.rename(bare)
    test = first.workspace / "tests" / "two_test.sh"
    test.write_text(test.read_text().replace("grep Hello", "grep 'Hello!'"))
    first.type("evolve", "--workspace", str(first.workspace), "accept", "--yes")
    said = second.run("== turn\ntext: Done.\n").stderr
    assert "hooks/two.sh: the change does not go with what other workers changed meanwhile" in said
    assert second.greets("two") == "it says Hello!"


def test_a_hook_of_git_in_the_shared_repository_is_not_run(first: Worker, bare: Path, tmp_path: Path) -> None:
    for name in ("pre-receive", "update", "post-receive", "post-update"):
        hook = bare / "hooks" / name
        hook.write_text(
            f"#!/bin/sh\necho {name} $PPID >>{tmp_path}/ran; cat /proc/$PPID/cmdline >>{tmp_path}/ran\n"
        )
        hook.chmod(0o755)
    before = git(bare, "rev-parse", "main")
    first.edit("Hello, all!")
    assert git(bare, "rev-parse", "main") != before
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_project_that_the_person_does_not_trust_names_no_shared_repository(
    worker: Callable[..., Worker], bare: Path
) -> None:
    made = worker("only")
    made.settings.write_text("{}")
    (made.folder / "project" / "instar.json").write_text(json.dumps({"evolve": {"remote": str(bare)}}))
    assert '""' in made.type("config", "show", "evolve.remote").stdout


SSH = """#!/bin/sh
for command; do :; done
case "$(cat FOLDER/answers)" in
refuses) echo "ssh: connect to host bot.example port 22: Connection refused" >&2; exit 255 ;;
asks) case "$*" in *BatchMode=yes*) ;; *) sleep 100 ;; esac
  echo "git@bot.example: Permission denied (publickey,password)." >&2; exit 255 ;;
hangs) sleep 100 ;;
*) exec sh -c "$command" ;;
esac
"""


@pytest.fixture
def ssh(tmp_path: Path, worker: Callable[..., Worker], bare: Path) -> Callable[[str], Worker]:
    """Make workers whose ssh is a program that runs what it is to run at the other side here, or fails."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(SSH.replace("FOLDER", str(tmp_path)))
    (programs / "ssh").chmod(0o755)
    (tmp_path / "answers").write_text("")

    def make(name: str) -> Worker:
        made = worker(name, f"ssh://git@bot.example{bare}")
        made.environment["PATH"] = f"{programs}:{made.environment['PATH']}"
        return made

    return make


def shares(first: Worker, second: Worker, bare: Path) -> None:
    """What the first one changes by a remote runs at the second one, whose workspace is a clone."""
    lay_out(first)
    assert first.greets() == "it says Hello!"
    git(second.folder, "clone", "--quiet", "--branch", "main", str(bare), "ws")
    assert second.greets() == "it says Hello!"
    first.edit("Hello, all!")
    assert second.greets() == "it says Hello, all!"


def failure(worker: Worker, greeting: str) -> str:
    """Why a change that a turn made is not shared."""
    told = worker.edit(greeting, old=says(worker))
    assert says(worker) == greeting
    (line,) = [one for one in told.splitlines() if "evolve=shared" in one]
    return line.partition("problem=")[2]


def test_workers_share_by_ssh_and_go_on_where_it_fails(
    ssh: Callable[[str], Worker], bare: Path, tmp_path: Path
) -> None:
    first, second = ssh("first"), ssh("second")
    shares(first, second, bare)
    name = f"ssh://bot.example{bare}"
    goes_on = "so this worker goes on with what it has"
    for answer, said in {
        "refuses": "ssh: connect to host bot.example port 22: Connection refused",
        "asks": "git@bot.example: Permission denied (publickey,password).",
        "hangs": "it did not end within 30 s",
    }.items():
        (tmp_path / "answers").write_text(answer)
        assert f"{name} cannot be reached, {goes_on}: {said}" in failure(second, f"Hello, {answer}!")
    status = second.type("evolve", "--workspace", str(second.workspace), "status").stdout
    assert f"{name} cannot be reached, {goes_on}: it did not end within 3 s" in " ".join(status.split())
    (tmp_path / "answers").write_text("")
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho the branch is protected >&2\nexit 1\n")
    hook.chmod(0o755)
    said = failure(second, "Hello, protected!")
    assert f"{name} takes no push, {goes_on}: remote: the branch is protected" in said
    hook.unlink()
    second.run("== turn\ntext: Done.\n")
    assert first.greets() == "it says Hello, protected!"


class GitHost(BaseHTTPRequestHandler):
    """git's own program for HTTP, for who knows the password; `folder` holds the repositories."""

    protocol_version = "HTTP/1.1"
    folder: Path
    login = "Basic " + base64.b64encode(b"eve:secret").decode()

    def do_GET(self) -> None:
        if self.headers["Authorization"] != self.login:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        given = {
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "HTTP_GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
            "REMOTE_USER": "eve",
        }
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        backend = ["git", "http-backend"]
        done = subprocess.run(backend, input=sent, env=os.environ | given, stdout=subprocess.PIPE, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in (fields | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def https(tmp_path: Path, bare: Path) -> Iterator[str]:
    """The repository's URL at a server whose certificate `certificate.pem` says who it is."""
    certificate = tmp_path / "certificate.pem"
    files = ("-keyout", str(tmp_path / "key.pem"), "-out", str(certificate))
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(["openssl", "req", *kind, *name, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")
    git(bare, "config", "http.receivepack", "true")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Host", (GitHost,), {"folder": tmp_path}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}/{bare.name}"
    server.shutdown()
    server.server_close()


def test_workers_share_by_https_with_a_password_and_are_asked_for_none(
    worker: Callable[..., Worker], https: str, bare: Path, tmp_path: Path
) -> None:
    first, second = worker("first", https), worker("second", https)
    for one in (first, second):
        home = Path(one.environment["HOME"])
        (home / ".netrc").write_text("machine localhost login eve password secret\n")
        (home / ".gitconfig").write_text(f"[http]\n\tsslCAInfo = {tmp_path / 'certificate.pem'}\n")
    shares(first, second, bare)
    begun = f"{https} cannot be reached, so this worker goes on with what it has: fatal: "
    (home / ".netrc").write_text("machine localhost login eve password wrong\n")
    assert f"{begun}Authentication failed for '{https}/'" in failure(second, "Hello, one!")
    (home / ".netrc").unlink()
    assert f"{begun}Authentication failed for '{https}/'" in failure(second, "Hello, two!")
    (home / ".gitconfig").unlink()
    assert f"{begun}unable to access '{https}/': server certificate verification failed" in failure(
        second, "Hello, three!"
    )
