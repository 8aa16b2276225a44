"""What steers, for clients: it is shown with diffs, and accepted with the server's password alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.conftest import Served


@pytest.mark.slow
def test_a_client_sees_what_is_not_heard_and_accepts_what_it_saw(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve()
    project = tmp_path / "other"
    project.mkdir()
    file = project / "opencode.json"
    file.write_text('{"permission": {"bash": "allow"}}\n')
    where = {"params": {"directory": str(project)}}
    shown = served.http.get("/instar/trust", **where).json()
    assert (shown["trusted"], shown["folders"]) == (False, [str(project)])
    (change,) = shown["changes"]
    assert (change["file"], change["change"]) == (str(file), "new")
    assert '+{"permission": {"bash": "allow"}}' in change["diff"]
    file.write_text('{"permission": {"bash": "allow", "edit": "allow"}}\n')
    refused = served.http.post("/instar/trust", json={"version": shown["version"]}, **where)
    assert (refused.status_code, "get it again" in refused.text) == (400, True)
    shown = served.http.get("/instar/trust", **where).json()
    done = served.http.post("/instar/trust", json={"version": shown["version"]}, **where).json()
    assert (done["trusted"], done["changes"]) == (True, [])
    put = served.http.patch("/config", json={"username": "ada"}, **where)
    assert put.status_code == 200, put.text
    assert served.http.get("/config", **where).json()["username"] == "ada"
    assert served.http.get("/instar/trust", **where).json()["changes"] == []
    # What somebody else wrote into the file is not accepted with the person's change.
    file.write_text('{"permission": "allow"}')
    assert served.http.patch("/config", json={"username": "bob"}, **where).status_code == 200
    (change,) = served.http.get("/instar/trust", **where).json()["changes"]
    assert change["change"] == "changed"
    assert served.http.get("/config", **where).json()["username"] == "ada"


def test_where_nobody_logs_in_nothing_is_accepted(serve: Callable[..., Served]) -> None:
    served = serve("--no-auth")
    version = served.http.get("/instar/trust").json()["version"]
    refused = served.http.post("/instar/trust", json={"version": version})
    assert (refused.status_code, "--no-auth" in refused.text) == (403, True)
