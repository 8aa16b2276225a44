"""A session of a workspace through HTTP: it works in the workspace's folder, whatever folder the client names."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_session_made_in_a_workspace_works_there(serve, clean_environment, tmp_path):
    script = '== turn\ntool: bash {"command": "echo new > new.txt"}\n\n== turn\ntext: done\n'
    server = serve(script=script)
    folder = server.directory
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", *name, "commit", "-q", "--allow-empty", "-m", "first"], cwd=folder, check=True)
    command = [sys.executable, "-m", "instar", "workspace"]
    environment = dict(clean_environment)
    subprocess.run([*command, "create", "fix"], cwd=folder, env=environment, check=True)
    listed = subprocess.run([*command, "list", "--json"], cwd=folder, env=environment, capture_output=True)
    (info,) = json.loads(listed.stdout)
    made = server.http.post("/session", json={"title": "named", "workspaceID": info["id"]}).json()
    assert (made["workspaceID"], made["directory"]) == (info["id"], info["directory"])
    server.ask(made["id"])
    changed = ["git", "status", "--porcelain", "--untracked-files=all"]
    there = subprocess.run(changed, cwd=info["directory"], capture_output=True, text=True)
    assert there.stdout == "?? new.txt\n"
    assert not (folder / "new.txt").exists()
    gone = server.http.post("/session", json={"workspaceID": "wrk_gone"})
    assert gone.status_code == 400
