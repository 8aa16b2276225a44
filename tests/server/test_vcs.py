"""The repository of a directory through HTTP."""

import base64
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.asking import Asking
from tests.server.conftest import LOGIN
from tests.server.machine import git
from tests.waiting import wait_until

CHANGE = """\
diff --git a/notes.txt b/notes.txt
--- a/notes.txt
+++ b/notes.txt
@@ -1,2 +1,2 @@
 buy milk
-buy bread
+buy cheese
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "src").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "notes.txt").write_text("buy milk\nbuy bread\n")
    (made / "src" / "app.py").write_text("app\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    return made


@pytest.fixture
def ask(shared, folder):
    return Asking(shared, folder)


@pytest.mark.slow
def test_the_branch_and_what_has_changed_are_told(ask, folder):
    assert ask.get("/vcs") == {"branch": "main", "default_branch": "main"}
    assert ask.get("/vcs/status") == []
    (folder / "notes.txt").write_text("buy milk\nbuy cheese\n")
    (folder / "src" / "new.py").write_text("new\n")
    assert ask.get("/vcs/status") == [
        {"file": "notes.txt", "additions": 1, "deletions": 1, "status": "modified"},
        {"file": "src/new.py", "additions": 1, "deletions": 0, "status": "added"},
    ]
    changed, new = ask.get("/vcs/diff", mode="git")
    assert changed["patch"].endswith("@@ -1,2 +1,2 @@\n buy milk\n-buy bread\n+buy cheese\n")
    assert new["patch"].endswith("--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1 @@\n+new\n")
    assert "@@ -2 +2 @@" in ask.get("/vcs/diff", mode="git", context=0)[0]["patch"]
    below = Asking(ask.served, folder / "src")
    assert [one["file"] for one in below.get("/vcs/status")] == ["src/new.py"]


def test_what_a_branch_changed_is_told_from_where_it_began(ask, folder):
    (folder / "notes.txt").write_text("dirty\n")
    assert ask.get("/vcs/diff", mode="branch") == []
    git(folder, "checkout", "-q", "-b", "topic")
    git(folder, "commit", "-qam", "second")
    (folder / "more.txt").write_text("more\n")
    assert ask.get("/vcs/diff", mode="git")[0]["file"] == "more.txt"
    assert [one["file"] for one in ask.get("/vcs/diff", mode="branch")] == ["more.txt", "notes.txt"]
    git(folder, "checkout", "-q", "--detach")
    assert ask.get("/vcs") == {"default_branch": "main"}


def test_the_raw_difference_can_be_applied_again(ask, folder):
    (folder / "notes.txt").write_text("caf\u00e9\n")
    (folder / "b.bin").write_bytes(b"\0\xff")
    patch = ask.get("/vcs/diff/raw")
    git(folder, "checkout", "-q", "--", "notes.txt")
    (folder / "b.bin").unlink()
    assert ask("POST", "/vcs/apply", json={"patch": patch.decode()}) == {"applied": True}
    assert (folder / "notes.txt").read_text() == "caf\u00e9\n"
    assert (folder / "b.bin").read_bytes() == b"\0\xff"


def test_a_patch_is_applied_to_the_repository_whatever_folder_of_it_is_meant(ask, folder):
    below = Asking(ask.served, folder / "src")
    assert below("POST", "/vcs/apply", json={"patch": CHANGE}) == {"applied": True}
    assert (folder / "notes.txt").read_text() == "buy milk\nbuy cheese\n"


@pytest.mark.parametrize("patch", ["", "nonsense", CHANGE.replace("bread", "wine")])
def test_a_patch_that_does_not_fit_is_refused(ask, folder, patch):
    error = ask("POST", "/vcs/apply", 400, json={"patch": patch})
    assert (error["name"], error["data"]["reason"]) == ("VcsApplyError", "not-clean")
    assert (folder / "notes.txt").read_text() == "buy milk\nbuy bread\n"


def test_outside_a_repository_nothing_has_changed_and_nothing_is_applied(shared, tmp_path):
    ask = Asking(shared, tmp_path)
    assert ask.get("/vcs") == {}
    assert (
        ask.get("/vcs/status")
        == ask.get("/vcs/diff", mode="git")
        == ask.get("/vcs/diff", mode="branch")
        == []
    )
    assert ask.get("/vcs/diff/raw") == b""
    error = ask("POST", "/vcs/apply", 400, json={"patch": CHANGE})
    assert (error["name"], error["data"]["reason"]) == ("VcsApplyError", "non-git")


@pytest.mark.parametrize(
    "query", [{}, {"mode": "x"}, {"mode": "git", "context": -1}, {"mode": "git", "context": "x"}]
)
def test_a_difference_that_means_nothing_is_refused(ask, query):
    ask.get("/vcs/diff", 400, **query)


@pytest.mark.slow
def test_git_ends_when_the_client_goes_away(ask, folder, shared):
    pid = folder.parent / "pid"
    settings = shared.directory.parent / ".gitconfig"
    git(folder, "config", "--file", str(settings), "filter.slow.clean", f"echo $$ > {pid}; exec sleep 60")
    (folder / ".gitattributes").write_text("notes.txt filter=slow\n")
    (folder / "notes.txt").write_text("buy milk\nbuy cheese\n")
    with socket.create_connection(urlsplit(shared.url).netloc.split(":")) as client:
        login = base64.b64encode(":".join(LOGIN).encode()).decode()
        lines = (
            f"GET /vcs/status?directory={folder} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Basic {login}",
        )
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        number = wait_until(lambda: pid.exists() and pid.read_text().strip())
    wait_until(lambda: not Path(f"/proc/{number}").exists())
    settings.unlink()


def test_a_repository_that_git_will_not_read_has_a_branch_and_no_differences(ask, folder):
    (folder / ".git" / "config").write_text("[core\n")
    assert ask.get("/vcs") == {"branch": "main"}
    assert "config" in ask.get("/vcs/status", 400)["data"]["message"]
    assert ask.get("/file", path="src")[0]["ignored"] is False
    for project_id in ("any", ask.get("/project/current")["id"]):
        url = f"/project/{project_id}/directories"
        assert ask.get(url, 200, "/project/{projectID}/directories") == []
