"""A server's clients say whether what a call made, and what would run later, is kept; not where everybody is let in."""

import json
import subprocess
from collections.abc import Callable, Mapping

import pytest
from tests.server.conftest import Served
from tests.waiting import wait_until

PLANT = {"command": "echo evil > .git/hooks/pre-commit"}
SCRIPT = f"== turn\ntool: bash {json.dumps(PLANT)}\n\n== turn\ntext: {{{{last.tool.output}}}}\n"


@pytest.mark.parametrize(("answer", "kept"), [("once", True), ("reject", False)])
def test_a_client_is_asked_before_a_hook_is_put_aside(
    serve: Callable[..., Served], answer: str, kept: bool
) -> None:
    served = serve(script=SCRIPT)
    subprocess.run(["git", "init", "-q", served.directory], check=True)
    session_id = served.session()
    assert served.ask(session_id, path="prompt_async").status_code == 204
    wait_until(lambda: served.http.get("/permission").json())
    (waiting,) = served.http.get("/permission").json()
    assert (waiting["permission"], waiting["always"]) == ("keep", [])
    assert ".git/hooks/pre-commit" in waiting["patterns"][0]
    assert "evil" in waiting["metadata"]["diff"]
    served.http.post(f"/permission/{waiting['id']}/reply", json={"reply": answer})
    wait_until(lambda: served.http.get("/session/status").json() == {})
    assert (served.directory / ".git/hooks/pre-commit").exists() == kept
    last = served.http.get(f"/session/{session_id}/message").json()[-1]["parts"]
    assert ("instar aside restore" in json.dumps(last)) != kept


def test_a_server_without_a_password_asks_nobody(
    serve: Callable[..., Served], clean_environment: Mapping[str, str]
) -> None:
    served = serve("--no-auth", script=SCRIPT)
    subprocess.run(["git", "init", "-q", served.directory], check=True, env=dict(clean_environment))
    with served.events() as events:
        answer = served.ask(served.session()).json()
        assert "was put aside" in json.dumps(answer)
        shown = next(event for event in events if event["type"] == "tui.toast.show")
    assert "instar aside restore" in shown["properties"]["message"]
    assert not (served.directory / ".git/hooks/pre-commit").exists()
