"""opencode's own clients against `instar serve`: `make test-clients`. Nothing here is collected without INSTAR_CLIENTS.

INSTAR_CLIENTS names the folder into which npm installed ``opencode-ai`` and ``@opencode-ai/sdk``, and pip, below
``python``, ``opencode-ai``. Beside it, in ``servers``, stand language servers and formatters.
INSTAR_TRIED collects the comparison of published plugins too (`make test-js`).

A module that asks for `server` (instar) or `opencode` (the real one) may set ``ANSWERS``: what their model
says, by the words of the prompt (`tests.clients.model`); and ``SETTINGS``, put over the model's.
"""

import os
from collections.abc import Iterator

import pytest
from tests.clients.model import Model
from tests.clients.programs import Instar, Program

collect_ignore_glob = [
    *([] if os.environ.get("INSTAR_CLIENTS") else ["test_*.py"]),
    *([] if os.environ.get("INSTAR_TRIED") else ["test_plugins_tried.py"]),
]


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    """The model of both servers; it says what the module's ANSWERS say."""
    made = Model(getattr(request.module, "ANSWERS", {}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """A running `instar serve`."""
    started = Instar(tmp_path_factory.mktemp("instar"), _settings(request, model))
    yield started
    started.close()


@pytest.fixture(scope="module")
def opencode(
    request: pytest.FixtureRequest, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """A running `opencode serve`, the real one."""
    started = Program(tmp_path_factory.mktemp("opencode"), _settings(request, model))
    yield started
    started.close()


def _settings(request: pytest.FixtureRequest, model: Model) -> dict[str, object]:
    return {**model.settings(), **getattr(request.module, "SETTINGS", {})}
