"""A loopback provider as a process, shared by the tests of a run."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Tests are imported by path, so that a shared module must be put where it is found.
sys.path.insert(0, str(Path(__file__).parent))

from provider_words import Server

# The extra weighs 250 MB, so that `make test` does without it; `make extra` installs it and runs these.
collect_ignore = [] if find_spec("pydantic_ai") else ["extra"]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("provider")
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("server.py")), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    yield Server(folder, int(child.stdout.readline()))
    child.kill()
    child.wait()
    child.stdout.close()
