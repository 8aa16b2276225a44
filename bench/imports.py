"""What importing each library costs: `python -m bench.imports [--json] [--runs N]`.

Wall time of an interpreter that imports it, less that of one that imports nothing, in turns; bytecode is compiled.
"""

import subprocess
import sys
import time
from pathlib import Path

from bench.figure import Figure, Show, play

MODULES = (
    "msgspec",
    "click",
    "httpx2",
    "jsonschema",
    "mcp",
    "nodesemver",
    "yaml",
    "regex",
    "prompt_toolkit",
    "rich.console",
    "starlette.applications, uvicorn",
    "tree_sitter, tree_sitter_bash",
    "watchfiles",
    "wsproto",
)


def measure(_: Path, runs: int, show: Show) -> None:
    """Measure each."""
    for modules in MODULES:
        started(f"import {modules}")
        took = [started(f"import {modules}") - bare for bare in (started("pass") for _ in range(runs))]
        show(Figure(f"import {modules}", took, "ms"))


def started(code: str) -> float:
    """Milliseconds of an interpreter that runs this."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    play("bench.imports", __doc__, measure, runs=(9, "runs of each"))
