"""Playing many scenarios at once on one server: a directory, and so an instance, for each."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.hosts import Host
from tests.conformance.model import Model
from tests.conformance.play import Scenario

AT_ONCE = 4
"""Scenarios that are played side by side."""

SUFFIXES = {"python": ".py", "typescript": ".ts"}


def npm(environment: Mapping[str, str]) -> Path | None:
    """Where ``make test-clients`` installed what published plugins import, None when it did not or there is no node."""
    folder = Path(environment.get("INSTAR_CLIENTS") or Path(sys.prefix) / "opencode").absolute()
    offered = folder / "node_modules" / "@opencode-ai" / "plugin"
    return folder if offered.is_dir() and shutil.which("node") else None


def answers(scenarios: Sequence[Scenario]) -> Mapping[str, Any]:
    """What a model says in these scenarios."""
    return {one.name: one.answers for one in scenarios}


def traces(
    host: Host, model: Model, scenarios: Sequence[Scenario], suffixes: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Play scenarios, each with its suffixes, and return their traces by name; what broke off is told in its place."""

    def played(scenario: Scenario, files: Mapping[str, str]) -> Any:
        try:
            return scenario.trace(host, model, files)
        # The others are still played: one run shows all that is wrong.
        except Exception as error:
            return {"broke off": f"{type(error).__name__}: {error}"}

    # What a server makes once, it makes alone.
    found = [played(scenarios[0], suffixes[0])]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found += pool.map(played, scenarios[1:], suffixes[1:])
    return {scenario.name: one for scenario, one in zip(scenarios, found, strict=True)}
