"""A server whose files change while clients listen: agents are new, opencode's clients ask again, streams go on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.server.conftest import DOCUMENT, Served


def until(events: Iterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(one for one in events if one.get("payload", one)["type"] == kind)


def put(path: Path, text: str) -> None:
    """Put a file there, whole from the first moment on: half of one would be taken up, and then the rest."""
    half = path.parent.parent / "half-written"
    half.write_text(text)
    half.replace(path)


@pytest.mark.slow
def test_clients_are_told_of_a_reload_and_each_stream_in_its_own_way(serve: Callable[..., Served]) -> None:
    served = serve(environment={"INSTAR_TRUST": "all"})
    agents = served.directory / ".instar" / "agents"

    def names() -> list[str]:
        return [one["name"] for one in served.http.get("/agent").json()]

    with (
        served.events("/instar/event") as own,
        served.events("/global/event") as everywhere,
        served.events("/event") as here,
    ):
        assert "poet" not in names()
        agents.mkdir(parents=True)
        put(agents / "poet.md", "You write.")
        told = until(own, "instance.reloaded")
        assert (told["properties"], told["directory"]) == (
            {"what": ["agents"], "problems": []},
            str(served.directory),
        )
        assert "poet" in names()
        put(agents / "poet.md", "---\nmode: king\n---\nYou write.")
        (problem,) = until(own, "instance.reloaded")["properties"]["problems"]
        assert problem.startswith(f"{agents}/poet.md:2: mode:")
        assert "poet" in names()
        anew = until(everywhere, "server.instance.disposed")
        assert anew["payload"]["properties"] == {"directory": str(served.directory)}
        schema = {
            "$ref": "#/components/schemas/EventServerInstanceDisposed",
            "components": DOCUMENT["components"],
        }
        assert list(Draft202012Validator(schema).iter_errors(anew["payload"])) == []
        # The stream of the directory goes on: whoever follows a turn there must hear its end.
        session = served.session()
        heard = [next(here)["type"]]
        while heard[-1] != "session.created":
            heard.append(next(here)["type"])
        assert "server.instance.disposed" not in heard
        assert "instance.reloaded" not in heard
    assert served.http.post("/instance/dispose").json() is True
    assert served.http.get(f"/session/{session}").status_code == 200
    assert served.stop() == 0
    log = served.directory.parent / "home/.local/state/instar/log/instar.log"
    assert f"notice directory={served.directory}: {agents}/poet.md:2: mode:" in log.read_text()
