"""A person's machine with a project of rules, and `instar hooks` as a person types it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine


class Ruled(Machine):
    """A machine whose project may have rules."""

    def rules(self, data: Any, name: str = ".instar/hooks.json") -> Path:
        """Write a file of rules into the project."""
        return self.write(name, data if isinstance(data, str) else json.dumps(data, indent=1))

    def program(self, name: str, text: str) -> Path:
        """Write a program into the project."""
        path = self.write(name, f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def hooks(self, *arguments: str, code: int = 0) -> str:
        """Run `instar hooks` in the trusted project and return what it printed, stderr last."""
        self.environment["INSTAR_TRUST"] = "all"
        done = self.instar("hooks", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def tried(self, event: str, *arguments: str, code: int = 0) -> Any:
        """What `instar hooks test --json` says."""
        return json.loads(self.hooks("test", event, *arguments, "--json", code=code))


@pytest.fixture
def machine(tmp_path: Path, clean_environment: Mapping[str, str]) -> Ruled:
    """A machine on which nothing was ever run."""
    return Ruled(tmp_path, clean_environment)
