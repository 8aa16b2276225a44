"""`GET /formatter` and `GET /lsp`: what the settings of these names switched on."""

import json
import os
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_formatters_and_language_servers_are_listed_in_opencodes_shapes(serve, tmp_path: Path):
    folder = tmp_path / "project"
    folder.mkdir()
    settings = {
        "formatter": {"air": {"disabled": True}, "mine": {"command": ["true"], "extensions": [".txt"]}},
        "lsp": {"none": {"command": ["false"], "extensions": [".txt"]}},
    }
    (folder / "instar.json").write_text(json.dumps(settings))
    (folder / "ruff.toml").write_text("")
    served = serve(
        script='== turn\ntool: write {"filePath": "a.txt", "content": "x"}\n\n== turn\ntext: done\n',
        environment={
            "INSTAR_TRUST": "all",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        },
    )
    formatters = served.http.get("/formatter").json()
    assert {tuple(one) for one in formatters} == {("name", "extensions", "enabled")}
    named = {one["name"]: (one["extensions"], one["enabled"]) for one in formatters}
    assert named["ruff"] == ([".py", ".pyi"], True)
    assert named["mine"] == ([".txt"], True)
    assert named["prettier"][1] is False
    assert "air" not in named
    assert served.http.get("/lsp").json() == []
    session = served.http.post("/session", json={}).json()["id"]
    prompt = {"model": {"providerID": "scripted", "modelID": "x"}, "parts": [{"type": "text", "text": "go"}]}
    served.http.post(f"/session/{session}/message", json=prompt)
    (server,) = served.http.get("/lsp").json()
    assert server == {"id": "none", "name": "none", "root": "", "status": "error"}


@pytest.mark.slow
def test_without_the_settings_there_are_none(serve):
    served = serve()
    assert served.http.get("/formatter").json() == served.http.get("/lsp").json() == []
