"""A server that the machine gives too little: descriptors, space on the disk."""

import asyncio
import contextlib
import resource
import sqlite3

import httpx2
import pytest
from tests.server.conftest import LOGIN
from tests.waiting import PATIENCE

CALLS = """== turn
tool: bash {"command": "sleep 0.2; echo one"}
tool: bash {"command": "sleep 0.2; echo two"}
== turn
text: fine
"""
MODEL = {"providerID": "scripted", "modelID": "test"}


@pytest.mark.slow
async def test_with_64_descriptors_the_calls_of_30_turns_wait_for_each_other(serve, clean_environment):
    served = serve(script=CALLS, environment={"OPENCODE_PERMISSION": '{"bash": "allow"}'})
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (64, 64))

    async def turn(client: httpx2.AsyncClient) -> list[str]:
        session = (await client.post("/session", json={})).json()["id"]
        body = {"model": MODEL, "parts": [{"type": "text", "text": "go"}]}
        assert (await client.post(f"/session/{session}/message", json=body)).status_code == 200
        told = (await client.get(f"/session/{session}/message")).json()
        parts = [part for message in told for part in message["parts"] if part["type"] == "tool"]
        return [part["state"].get("output", part["state"].get("error")) for part in parts]

    limits = httpx2.Limits(max_connections=30)
    async with httpx2.AsyncClient(base_url=served.url, auth=LOGIN, timeout=PATIENCE, limits=limits) as client:
        told = await asyncio.gather(*(turn(client) for _ in range(30)))
    assert told == [["one\n", "two\n"]] * 30


def test_a_full_disk_is_said_with_what_to_do_and_the_next_request_is_served(serve, tmp_path):
    served = serve()
    session = served.session()
    (file,) = tmp_path.rglob("instar.db")
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON message "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
        database.commit()
    for path in (f"/session/{session}/message", f"/session/{session}/prompt_async"):
        body = {"model": MODEL, "parts": [{"type": "text", "text": "go"}]}
        refused = served.http.post(path, json=body)
        assert refused.status_code == 503
        assert "free some space and try again" in refused.json()["data"]["message"]
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("DROP TRIGGER full")
        database.commit()
    assert served.ask(session).json()["info"].get("error") is None
