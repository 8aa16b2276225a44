"""instar as a person starts it: a command that is timed, and a server that is asked over HTTP."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "instar"]


class Cost(NamedTuple):
    """One finished run: wall and CPU seconds, peak memory in MB: at least that of the process that starts it."""

    wall: float
    cpu: float
    memory: float


def environment(home: Path, **more: str) -> dict[str, str]:
    """A person's environment with a home of its own and nothing else."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}


def timed(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], command: Sequence[str] = COMMAND
) -> Cost:
    """Run `command`, instar unless told, to its end. Raises `RuntimeError` with what it printed when it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        line = " ".join([*command, *arguments])
        raise RuntimeError(f"{line} exited {process.returncode}: {printed.decode(errors='replace')}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


class Server:
    """A running `instar serve` without a password, on loopback."""

    def __init__(self, process: subprocess.Popen[str], url: str, ready: float) -> None:
        self.process = process
        self.url = url
        self.ready = ready
        """Seconds from the start to the first answer of /global/health."""

    def get(self, path: str) -> Any:
        """GET a path as JSON."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        """POST JSON to a path."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def session(self) -> str:
        """Make a session and return its id."""
        return str(self.post("/session", {"title": "bench"})["id"])

    def turn(self, session: str, model: str | None = None) -> float:
        """Prompt and return the seconds until the answer. Raises `RuntimeError` when the answer is an error."""
        body: dict[str, Any] = {"parts": [{"type": "text", "text": "go"}]}
        if model:
            body["model"] = {"providerID": "bench", "modelID": model}
        started = time.perf_counter()
        answer = self.post(f"/session/{session}/message", body)
        took = time.perf_counter() - started
        if "error" in answer["info"]:
            raise RuntimeError(f"the turn failed: {answer['info']['error']}")
        return took

    def tool_turn(self, calls: int) -> float:
        """Run a turn in a new session and return its seconds.

        Raises `RuntimeError` unless it made so many calls and all went well.
        """
        session = self.session()
        took = self.turn(session)
        parts = [part for message in self.get(f"/session/{session}/message") for part in message["parts"]]
        states = [part["state"]["status"] for part in parts if part["type"] == "tool"]
        if states != ["completed"] * calls:
            raise RuntimeError(f"the turn's calls ended as {states}")
        return took

    @contextmanager
    def listening(self) -> Iterator[Callable[[], int]]:
        """Read the event stream in a process of its own; the function yielded says how many bytes came so far."""
        code = "import sys, urllib.request as u\nfor line in u.urlopen(sys.argv[1]): print(line, flush=True)"
        with tempfile.NamedTemporaryFile() as file:
            reader = subprocess.Popen([sys.executable, "-c", code, self.url + "/event"], stdout=file)
            try:
                while Path(file.name).stat().st_size == 0:
                    time.sleep(0.01)
                yield lambda: Path(file.name).stat().st_size
            finally:
                reader.kill()
                reader.wait()

    def cpu(self) -> float:
        """CPU seconds that the server has used."""
        return cpu_of(self.process.pid)

    def memory(self) -> float:
        """Resident memory of the server in MB."""
        return memory_of(self.process.pid)


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@contextmanager
def serving(folder: Path, env: Mapping[str, str]) -> Iterator[Server]:
    """Start a server, wait for its first health answer, and stop it afterwards."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--no-auth"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        server = Server(process, _address(process.stdout), 0.0)
        server.get("/global/health")
        server.ready = time.perf_counter() - started
        yield server
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


def _address(printed: Iterable[str]) -> str:
    """Read what a server prints up to its address. Raises `RuntimeError` with it when none comes."""
    lines = []
    for line in printed:
        lines.append(line)
        if "listening on" in line:
            return line.split()[-1]
    raise RuntimeError(f"instar serve did not start: {''.join(lines)}")


@contextmanager
def modelled(names: Sequence[str]) -> Iterator[tuple[dict[str, str], str]]:
    """Run the model server; yields variables that make its models, by name, instar's own, and its address."""
    process = subprocess.Popen([sys.executable, "-m", "bench.model"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        block = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": url, "apiKey": "none"},
            "models": {},
        }
        config = {
            "model": f"bench/{names[0]}",
            "provider": {"bench": {**block, "models": {name: {} for name in names}}},
        }
        yield {"INSTAR_CONFIG_CONTENT": json.dumps(config)}, url
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def model_alone(url: str, messages: int, runs: int = 20) -> list[float]:
    """Return the model's own seconds for a conversation of so many short messages."""
    said = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": "word"} for number in range(messages)
    ]
    tools = [{"type": "function", "function": {"name": "t", "description": "d" * 9000, "parameters": {}}}]
    body = json.dumps({"model": "word", "messages": said, "tools": tools}).encode()
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        took.append(time.perf_counter() - started)
    connection.close()
    return took


def spawn(argv: Sequence[str], text: str) -> float:
    """Start a program once with `text` on standard input; return the seconds it took."""
    started = time.perf_counter()
    subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    return time.perf_counter() - started


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))
