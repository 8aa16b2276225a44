"""What the bridge costs the real opencode: `python -m bench.bridge [--opencode FOLDER] [--turns N]`.

Three opencode serve a project of the same files and ask the same model, which answers at once: one alone, one with a
rule of hooks over the bridge, and one with evolve too, whose script answers at each turn. They take turns one by one,
so that a machine's slow minute meets all of them.
"""

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import contender
from bench.beside import WARMING
from bench.contender import House, modelled
from bench.program import timed

RULE: Final = {
    "project/.instar/hooks.json": json.dumps(
        {"PreToolUse": [{"matcher": "write", "hooks": [{"command": "exit 2", "timeout": 10}]}]}
    )
}
SCRIPT: Final = {
    "workspace/config/evolve.jsonc": json.dumps({"heartbeat_ms": -1}),
    "workspace/hooks/bot.py": f"""#!{sys.executable}
import json, sys
ANSWERS = {{
    "discover": {{"name": "bot", "tools": [{{"name": "hello", "description": "Greets."}}]}},
    "mutate_request": {{"system": ["You are Bot."]}},
    "observe_message": {{}},
    "idle": {{}},
}}
print(json.dumps(ANSWERS.get(sys.argv[1], {{"error": "unknown hook: " + sys.argv[1]}})))
""",
}
KINDS: Final = {"alone": {}, "a rule of hooks": RULE, "and evolve": {**RULE, **SCRIPT}}


def house(
    folder: Path, files: dict[str, str], program: contender.Program, url: str, *, snapshot: bool
) -> House:
    """Make a house of opencode's; instar's plugins are in it where there are files of theirs."""
    made = House(folder, program, contender.settings(url, snapshot=snapshot))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    if (workspace := folder / "workspace").exists():
        made.environment["INSTAR_WORKSPACE"] = str(workspace)
    for words in (["trust", "."], ["opencode", "install"]) if files else ():
        timed(words, made.project, made.environment)
    return made


def measure(what: str, houses: list[House], turns: int) -> None:
    """Print the medians of what turns of each took, and what they are of the first."""
    with ExitStack() as stack:
        servers = [stack.enter_context(one.serving()) for one in houses]
        sessions = [server.session() for server in servers]
        took: list[list[float]] = [[] for _ in servers]
        for number in range(WARMING + turns):
            for server, session, mine in zip(servers, sessions, took, strict=True):
                seconds = server.turn(session)
                # What one does after its answer is not paid for by the next.
                server.rest()
                if number >= WARMING:
                    mine.append(seconds * 1000)
    medians = [statistics.median(values) for values in took]
    print(f"{what:<24}{''.join(f'{one:>8.1f} ms ({one / medians[0]:.2f} ×)' for one in medians)}", flush=True)


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.bridge", description=__doc__)
    parser.add_argument("--opencode", type=Path, metavar="FOLDER", default=Path(".venv/opencode"))
    parser.add_argument("--turns", type=int, metavar="N", default=30, help="of each (default %(default)s)")
    chosen = parser.parse_args()
    program = contender.opencode(chosen.opencode)
    print(f"{'a warm turn':<24}{''.join(f'{kind:>20}' for kind in KINDS)}")
    with (
        tempfile.TemporaryDirectory(prefix="instar-bridge-", ignore_cleanup_errors=True) as root,
        modelled() as url,
    ):
        for what, snapshot in (("as shipped", True), ("snapshots off", False)):
            houses = [
                house(Path(root) / what / kind, files, program, url, snapshot=snapshot)
                for kind, files in KINDS.items()
            ]
            measure(what, houses, chosen.turns)


if __name__ == "__main__":
    main()
