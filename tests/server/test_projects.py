"""Projects, their worktrees, copies and workspaces through HTTP, and sessions that move between them."""

from pathlib import Path

import pytest
from tests.server.asking import Asking
from tests.server.machine import git
from tests.waiting import wait_until

MOVE = "/experimental/control-plane/move-session"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "src").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    # No two tests share a project: its id is the first commit's.
    (made / "notes.txt").write_text(f"{tmp_path}\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    return made


@pytest.fixture
def ask(shared, folder):
    return Asking(shared, folder)


@pytest.mark.slow
def test_the_project_of_a_repository_is_its_first_commit_in_every_folder(ask, folder):
    current = ask.get("/project/current")
    assert current["id"] == git(folder, "rev-parse", "HEAD")
    assert (current["worktree"], current["vcs"], current["sandboxes"]) == (str(folder), "git", [])
    assert Asking(ask.served, folder / "src").get("/project/current") == current
    assert current in ask.get("/project")


def test_a_projects_name_icon_and_commands_are_kept_field_by_field(ask):
    project_id = ask.get("/project/current")["id"]
    url, template = f"/project/{project_id}", "/project/{projectID}"
    body = {"name": "Named", "icon": {"color": "#112233"}, "commands": {"start": "make"}}
    with ask.served.events(params={"directory": ask.directory}) as events:
        changed = ask("PATCH", url, 200, template, json=body)
        told = next(one for one in events if one["type"] == "project.updated" and "name" in one["properties"])
    assert changed.items() >= body.items()
    assert told["properties"].items() >= body.items()
    again = ask("PATCH", url, 200, template, json={"icon": {"url": "data:x"}})
    assert again["icon"] == {"color": "#112233", "url": "data:x"}
    assert again["name"] == "Named"
    ask("POST", "/session")
    listed = next(one for one in ask.get("/project") if one["id"] == project_id)
    assert listed.items() >= {**body, "icon": again["icon"]}.items()
    assert ask.get("/project/current") == listed
    newest = ask.get("/experimental/session")[0]
    assert newest["project"] == {"id": project_id, "name": "Named", "worktree": listed["worktree"]}


def test_a_project_that_nobody_knows_is_not_changed_and_has_no_folders(ask):
    error = ask("PATCH", "/project/nonsense", 404, "/project/{projectID}", json={"name": "x"})
    assert (error["_tag"], error["projectID"]) == ("ProjectNotFoundError", "nonsense")
    assert ask.get("/project/nonsense/directories", 200, "/project/{projectID}/directories") == []


def test_a_folder_becomes_a_repository_once(shared, tmp_path):
    ask = Asking(shared, tmp_path)
    assert ask.get("/project/current")["worktree"] == "/"
    made = ask("POST", "/project/git/init")
    assert (made["worktree"], made["vcs"]) == (str(tmp_path), "git")
    head = (tmp_path / ".git" / "HEAD").stat()
    assert ask("POST", "/project/git/init")["worktree"] == str(tmp_path)
    assert (tmp_path / ".git" / "HEAD").stat() == head
    assert ask.get("/vcs") == {"branch": "main"}


@pytest.mark.slow
def test_a_worktree_is_made_used_reset_and_removed(ask, folder):
    assert ask.get("/experimental/worktree") == []
    start = {"name": "My Side!", "startCommand": "echo ran > ran.txt"}
    made = ask("POST", "/experimental/worktree", json=start)
    assert (made["name"], made["branch"]) == ("my-side", "instar/my-side")
    side = Path(made["directory"])
    wait_until((side / "ran.txt").exists)
    assert ask.get("/experimental/worktree") == ask.get("/project/current")["sandboxes"] == [str(side)]
    there = Asking(ask.served, side)
    assert there.get("/vcs") == {"branch": "instar/my-side", "default_branch": "main"}
    assert there.get("/project/current")["worktree"] == str(folder)
    (side / "notes.txt").write_text("changed\n")
    git(side, "commit", "-qam", "second")
    assert ask("POST", "/experimental/worktree/reset", json={"directory": str(side)}) is True
    assert git(side, "rev-parse", "HEAD") == git(folder, "rev-parse", "main")
    assert git(side, "status", "--porcelain") == ""
    assert ask("POST", "/experimental/worktree", json={"name": "my side"})["name"].startswith("my-side-")
    assert ask("DELETE", "/experimental/worktree", json={"directory": str(side)}) is True
    assert not side.exists()
    assert ask("DELETE", "/experimental/worktree", json={"directory": str(side)}) is True


def test_a_worktree_that_is_not_instars_stays(ask, folder, tmp_path):
    for directory in (folder, tmp_path, Path("/")):
        error = ask("DELETE", "/experimental/worktree", 400, json={"directory": str(directory)})
        assert error["name"] == "WorktreeRemoveFailedError"
        error = ask("POST", "/experimental/worktree/reset", 400, json={"directory": str(directory)})
        assert error["name"] == "WorktreeResetFailedError"
    assert (folder / "notes.txt").exists()


def test_outside_a_repository_there_are_no_worktrees_and_copies(shared, tmp_path):
    ask = Asking(shared, tmp_path)
    assert ask.get("/experimental/worktree") == []
    assert ask("POST", "/experimental/worktree", 400)["name"] == "WorktreeNotGitError"
    body = {"strategy": "git_worktree", "directory": str(tmp_path / "copy")}
    template = "/experimental/project/{projectID}/copy"
    assert (
        ask("POST", "/experimental/project/global/copy", 400, template, json=body)["name"]
        == "ProjectCopyError"
    )
    assert ask.get("/project/global/directories", 200, "/project/{projectID}/directories") == []


@pytest.mark.slow
def test_a_copy_is_made_where_a_person_wants_it_and_keeps_its_work(ask, folder, tmp_path):
    project_id = ask.get("/project/current")["id"]
    template = "/experimental/project/{projectID}/copy"
    url = f"/experimental/project/{project_id}/copy"
    body = {"strategy": "git_worktree", "directory": str(tmp_path / "copies"), "name": "Some Thing"}
    made = Path(ask("POST", url, 200, template, json=body)["directory"])
    assert made == tmp_path / "copies" / "Some Thing"
    assert (made / "notes.txt").read_text() == (folder / "notes.txt").read_text()
    second = ask("POST", url, 200, template, json=body)["directory"]
    assert second == str(tmp_path / "copies" / "Some Thing-2")
    listed = ask.get(f"/project/{project_id}/directories", 200, "/project/{projectID}/directories")
    assert {"directory": second, "strategy": "git_worktree"} in listed
    assert listed[-1] == {"directory": str(folder)}
    (made / "work.txt").write_text("work\n")
    kept = ask("DELETE", url, 400, template, json={"directory": str(made), "force": False})
    assert kept["data"]["forceRequired"] is True
    git(made, "add", ".")
    git(made, "commit", "-qm", "only here")
    kept = ask("DELETE", url, 400, template, json={"directory": str(made), "force": False})
    assert "commits that no branch has" in kept["data"]["message"]
    for directory, force in ((second, False), (made, True)):
        ask("DELETE", url, 204, template, json={"directory": str(directory), "force": force})
    assert list((tmp_path / "copies").iterdir()) == []
    assert git(folder, "worktree", "list").count("\n") == 0
    ask("POST", f"{url}/refresh", 204, f"{template}/refresh")


@pytest.mark.parametrize(
    "body",
    [
        {"strategy": "zip", "directory": "/tmp"},
        {"strategy": "git_worktree", "directory": "a\0b"},
        {"strategy": "git_worktree", "directory": "x" * 5000},
        {"strategy": "git_worktree", "directory": "here", "name": "../up"},
        {"strategy": "git_worktree", "directory": "notes.txt"},
    ],
)
def test_a_copy_that_cannot_be_made_is_refused(ask, folder, body):
    template = "/experimental/project/{projectID}/copy"
    url = f"/experimental/project/{ask.get('/project/current')['id']}/copy"
    assert ask("POST", url, 400, template, json=body)["name"] == "ProjectCopyError"
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.parametrize("directory", ["{folder}", "/", "/nothing", "a\0b", "rel"])
def test_what_is_no_copy_is_not_removed(ask, folder, directory):
    template = "/experimental/project/{projectID}/copy"
    for project_id in (ask.get("/project/current")["id"], "other"):
        body = {"directory": directory.format(folder=folder), "force": True}
        url = f"/experimental/project/{project_id}/copy"
        assert ask("DELETE", url, 400, template, json=body)["name"] == "ProjectCopyError"
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize(
    ("context", "name"),
    [("Fix the *big* bug", "fix-the-big-bug"), ("a/b ../c", "a-b-c"), ("x" * 99, "x" * 40)],
)
def test_a_copys_name_is_made_of_what_it_is_for(ask, context, name):
    path = "/experimental/project/{projectID}/copy/generate-name"
    url = path.replace("{projectID}", "any")
    assert ask("POST", url, 200, path, json={"context": context}) == {"name": name}
    assert "-" in ask("POST", url, 200, path, json={})["name"]


def test_workspaces_are_made_listed_entered_and_removed(ask, folder):
    assert {"type": "worktree", "name": "worktree"}.items() <= ask.get("/experimental/workspace/adapter")[
        0
    ].items()
    assert ask.get("/experimental/workspace") == ask.get("/experimental/workspace/status") == []
    made = ask("POST", "/experimental/workspace", json={"type": "worktree", "branch": None, "extra": None})
    assert ask.get("/experimental/workspace") == [made]
    status = {"workspaceID": made["id"], "status": "connected"}
    assert ask.get("/experimental/workspace/status") == [status]
    for query in ({"workspace": made["id"]}, {"location[workspace]": made["id"]}):
        assert ask.get("/path", **query)["directory"] == made["directory"]
    ask("POST", "/experimental/workspace/sync-list", 204)
    removed = ask("DELETE", f"/experimental/workspace/{made['id']}", 200, "/experimental/workspace/{id}")
    assert removed == made
    assert not Path(made["directory"]).exists()
    ask("DELETE", f"/experimental/workspace/{made['id']}", 400, "/experimental/workspace/{id}")
    assert "wrk_none" in ask.get("/path", 400, workspace="wrk_none")["data"]["message"]
    wrong = ask("POST", "/experimental/workspace", 400, json={"type": "nothing"})
    assert wrong["name"] == "WorkspaceCreateError"


@pytest.mark.slow
def test_a_session_moves_into_a_worktree_with_what_was_changed_and_works_there(ask, folder):
    side = Path(ask("POST", "/experimental/worktree", json={"name": "side"})["directory"])
    session = ask("POST", "/session")["id"]
    (folder / "notes.txt").write_text("changed\n")
    (folder / "new.txt").write_text("new\n")
    ask(
        "POST",
        MOVE,
        204,
        json={"sessionID": session, "destination": {"directory": str(side)}, "moveChanges": True},
    )
    assert git(folder, "status", "--porcelain") == ""
    assert git(side, "status", "--porcelain").split() == ["M", "notes.txt", "??", "new.txt"]
    moved = ask.served.http.get(f"/session/{session}").json()
    assert (moved["directory"], moved["path"]) == (str(side), "")
    answer = ask.served.ask(session).json()
    assert answer["info"]["path"]["cwd"] == str(side)
    # Its changes are in the way over there: nothing moves at all.
    (folder / "new.txt").write_text("other\n")
    body = {"sessionID": session, "destination": {"directory": str(folder)}, "moveChanges": True}
    assert ask("POST", MOVE, 400, json=body)["name"] == "MoveSessionError"
    assert (folder / "new.txt").read_text() == "other\n"
    assert (side / "new.txt").read_text() == "new\n"
    assert ask.served.http.get(f"/session/{session}").json()["directory"] == str(side)
    ask("POST", MOVE, 204, json={**body, "moveChanges": False})
    home = ask.served.http.get(f"/session/{session}").json()
    assert (home["directory"], home.get("workspaceID")) == (str(folder), None)


@pytest.mark.slow
def test_a_session_warps_into_a_workspace_and_out_of_it(ask, folder):
    made = ask("POST", "/experimental/workspace", json={"type": "worktree"})
    session = ask("POST", "/session")["id"]
    (folder / "new.txt").write_text("new\n")
    body = {"id": made["id"], "sessionID": session, "copyChanges": True}
    ask("POST", "/experimental/workspace/warp", 204, json=body)
    assert (Path(made["directory"]) / "new.txt").exists()
    assert (folder / "new.txt").exists()
    assert ask.served.http.get(f"/session/{session}").json()["workspaceID"] == made["id"]
    ask("POST", "/experimental/workspace/warp", 204, json={"id": None, "sessionID": session})
    assert ask.served.http.get(f"/session/{session}").json()["directory"] == str(folder)
    clash = ask("POST", "/experimental/workspace/warp", 400, json=body)
    assert clash["name"] == "VcsApplyError"
    gone = ask("POST", "/experimental/workspace/warp", 400, json={**body, "id": "wrk_none"})
    assert gone["name"] == "WorkspaceWarpError"


@pytest.mark.parametrize("directory", ["/", "/nothing", "rel", "a\0b", "x" * 5000, "{folder}/notes.txt"])
def test_a_session_does_not_move_out_of_its_project(ask, folder, directory):
    session = ask("POST", "/session")["id"]
    body = {"sessionID": session, "destination": {"directory": directory.format(folder=folder)}}
    assert ask("POST", MOVE, 400, json=body)["name"] == "MoveSessionError"
    unknown = {"sessionID": "ses_none", "destination": {"directory": str(folder)}}
    assert ask("POST", MOVE, 400, json=unknown)["name"] == "MoveSessionError"
    assert ask.served.http.get(f"/session/{session}").json()["directory"] == str(folder)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/project/{projectID}", {"name": 5}),
        ("PATCH", "/project/{projectID}", "text"),
        ("POST", "/experimental/worktree", {"name": 5}),
        ("DELETE", "/experimental/worktree", {}),
        ("POST", "/experimental/worktree/reset", {}),
        ("POST", "/experimental/project/{projectID}/copy", {"strategy": "git_worktree"}),
        ("DELETE", "/experimental/project/{projectID}/copy", {"directory": "/tmp"}),
        ("POST", "/experimental/project/{projectID}/copy/generate-name", {"context": 5}),
        ("POST", "/experimental/workspace", {}),
        ("DELETE", "/experimental/workspace/{id}", {}),
        ("POST", "/experimental/workspace/warp", {"sessionID": "ses_1"}),
        ("POST", MOVE, {"sessionID": "nonsense", "destination": {"directory": "/"}}),
        ("POST", MOVE, {"sessionID": "ses_1"}),
    ],
)
def test_what_does_not_fit_is_refused_in_the_documents_form(ask, method, path, body):
    ask(method, path.replace("{projectID}", "any").replace("{id}", "any"), 400, path, json=body)


def test_a_folder_that_is_none_is_refused_in_the_documents_form(shared):
    ask = Asking(shared, "/nothing/there")
    for path in (
        "/path",
        "/file/status",
        "/vcs",
        "/project",
        "/experimental/worktree",
        "/experimental/workspace",
    ):
        ask.get(path, 400)
    for path in ("/api/location", "/api/reference", "/api/fs/list"):
        ask.get(path, 400)
