"""opencode's terminal UI, driven by what is posted to `/tui/…` while it is attached."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.model import Model
from tests.clients.programs import Program
from tests.clients.terminal import Terminal

ANSWERS: dict[str, list[dict[str, Any]]] = {"from afar": [{"text": ["Heard you."]}]}


@pytest.fixture(scope="module")
def tui(
    request: pytest.FixtureRequest, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    server = request.getfixturevalue("server")
    before = streams(server)
    made = Terminal(server, model, tmp_path_factory.mktemp("remote"))
    # It draws before it listens: what is posted before that reaches nobody.
    made.screen.until(lambda _: streams(server) > before, "that it listens")
    yield made
    made.close()


def streams(server: Program) -> float:
    """How many clients follow events."""
    lines = server.http.get("/instar/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("instar_event_streams ")).split()[1])


def post(tui: Terminal, path: str, body: Any = None) -> None:
    answer = tui.server.http.post(f"/tui/{path}", json=body, params={"directory": str(tui.server.project)})
    assert answer.json() is True


@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        ("open-themes", None, ("Themes", "Search")),
        ("open-models", None, ("Select model", "Search")),
        ("open-sessions", None, ("Sessions", "Search")),
        ("open-help", None, ("Help", "Press ctrl+p")),
        ("execute-command", {"command": "agent.list"}, ("Select agent", "Search")),
    ],
)
def test_a_list_is_opened_from_afar(tui, path, body, shown):
    post(tui, path, body)
    tui.screen.shows(*shown)
    tui.screen.keys("Escape")
    tui.screen.hides(shown[1])


def test_a_prompt_is_written_cleared_and_sent_and_a_session_is_opened_from_afar(tui):
    tui.screen.shows("Ask anything")
    post(tui, "append-prompt", {"text": "from nowhere"})
    tui.screen.shows("from nowhere")
    post(tui, "clear-prompt")
    tui.screen.hides("from nowhere")
    post(tui, "append-prompt", {"text": "from afar"})
    tui.screen.shows("from afar")
    post(tui, "submit-prompt")
    tui.screen.shows("Heard you.")
    post(tui, "show-toast", {"title": "A notice", "message": "of something", "variant": "warning"})
    tui.screen.shows("A notice", "of something")
    post(tui, "execute-command", {"command": "session_new"})
    tui.screen.hides("Heard you.")
    post(tui, "select-session", {"sessionID": tui.session()["id"]})
    tui.screen.shows("Heard you.")
