"""Workspaces: sessions work in a folder apart, and what adapters do wrong is named and leaves nothing."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from instar.plugin import (
    CommandBody,
    Invalid,
    LocalTarget,
    NotFound,
    PromptBody,
    RemoteTarget,
    SessionBody,
    WorkspaceInfo,
    wire,
)
from instar.project import workspace
from instar.store import PutValue
from instar.testing import Machine, RuntimeUnderTest, results

pytest_plugins = ["tests.turn"]

WRITE = '== turn\ntool: bash {"command": "pwd; echo new > new.txt"}\n\n== turn\ntext: done\n'


def git(folder: Path, *args: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(house: Machine) -> Path:
    """The project as a repository with one commit, in which every command may run."""
    git(house.folder, "init", "-q", "-b", "main")
    (house.folder / "a.txt").write_text("one\n")
    git(house.folder, "add", ".")
    git(house.folder, "commit", "-qm", "first")
    house.settings(permission={"*": "allow"})
    return house.folder


async def inside(house: Machine, info: WorkspaceInfo) -> RuntimeUnderTest:
    """A runtime in the workspace's folder."""
    house.folder = Path(str(info.directory))
    return await house.open()


async def made_in(door: RuntimeUnderTest, info: WorkspaceInfo) -> str:
    return (await door.client.create(SessionBody(title="named", workspace_id=info.id))).id


@pytest.mark.slow
async def test_a_session_of_a_workspace_works_in_its_folder_and_leaves_the_project_alone(
    house: Machine, repository: Path
) -> None:
    house.says(WRITE)
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    session = await door.client.create(SessionBody(title="named", workspace_id=info.id))
    assert (session.workspace_id, session.directory) == (info.id, info.directory)
    there = await inside(house, info)
    await there.ask(session.id, "write")
    assert str(info.directory) in results(await there.stored(session.id))[0]
    assert (Path(session.directory) / "new.txt").read_text() == "new\n"
    assert git(repository, "status", "--porcelain") == ""
    assert (await there.client.revert(session.id)).files
    assert not (Path(session.directory) / "new.txt").exists()


@pytest.mark.slow
async def test_a_workspace_is_kept_in_opencodes_form(house: Machine, repository: Path) -> None:
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    assert wire.to_plain(info) == {
        "id": info.id,
        "type": "worktree",
        "name": "fix",
        "branch": "instar/fix",
        "directory": info.directory,
        "extra": {"repository": str(repository / ".git")},
        "projectID": git(repository, "rev-parse", "HEAD"),
        "timeUsed": info.time_used,
    }
    assert info.id.startswith("wrk_")
    again = await house.open()
    assert await again.runtime.workspace.list() == [info]
    assert await again.runtime.workspace.get("fix") == await again.runtime.workspace.get(info.id) == info


Attempt = Callable[[RuntimeUnderTest, str], Awaitable[object]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt",
    [
        lambda door, one: door.client.prompt(one, PromptBody.text("go")),
        lambda door, one: door.client.prompt_async(one, PromptBody.text("go")),
        lambda door, one: door.client.command(one, CommandBody(command="init", arguments="")),
        lambda door, one: door.client.follow_up(one, PromptBody.text("go"), "test"),
        lambda door, one: door.client.revert(one, "msg_1"),
        lambda door, one: door.client.unrevert(one),
    ],
)
async def test_a_session_of_a_workspace_does_not_work_anywhere_else(
    house: Machine, repository: Path, attempt: Attempt
) -> None:
    door = await house.open()
    info = await door.runtime.workspace.create()
    session = await made_in(door, info)
    with pytest.raises(Invalid, match=f"go on with it there .--dir {info.directory}"):
        await attempt(door, session)
    assert await door.stored(session) == []
    assert await door.runtime.instance.store.follow_ups(session) == []


@pytest.mark.slow
async def test_a_session_whose_workspace_was_removed_may_go_on_where_the_person_is(
    house: Machine, repository: Path
) -> None:
    house.says('== when ""\ntext: ok\n')
    door = await house.open()
    info = await door.runtime.workspace.create()
    session = await made_in(door, info)
    await door.runtime.workspace.remove(info.name)
    await door.ask(session, "go on")


@pytest.mark.slow
async def test_a_sub_agent_works_in_its_parents_workspace(house: Machine, repository: Path) -> None:
    house.says("""
        == turn
        tool: task {"description": "look", "prompt": "child work", "subagent_type": "general"}

        == when "child work"
        text: found it

        == turn
        text: done
    """)
    door = await house.open()
    info = await door.runtime.workspace.create()
    there = await inside(house, info)
    session = await made_in(there, info)
    await there.ask(session, "go")
    (child,) = await there.client.children(session)
    assert (child.workspace_id, child.directory) == (info.id, info.directory)


async def test_a_session_cannot_be_made_in_a_workspace_that_is_not_there(
    house: Machine, repository: Path
) -> None:
    door = await house.open()
    await door.runtime.workspace.create(name="fix")
    for named in ("wrk_1", "fox", "../fix", ""):
        with pytest.raises(NotFound, match="Workspace not found"):
            await door.client.create(SessionBody(workspace_id=named))
    with pytest.raises(NotFound, match="did you mean fix"):
        await door.runtime.workspace.get("fox")


@pytest.mark.slow
async def test_a_session_cannot_be_made_in_a_workspace_whose_folder_is_gone(
    house: Machine, repository: Path
) -> None:
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    git(repository, "worktree", "remove", str(info.directory))
    with pytest.raises(Invalid, match=r"is gone .*instar workspace remove --force fix"):
        await made_in(door, info)
    await door.runtime.workspace.remove("fix")
    await door.runtime.workspace.create(name="fix")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "-x", "a..b", "a.lock", "a.", "ä", "x" * 65, "a b", "a\n"]
)
async def test_a_name_that_a_folder_or_a_branch_could_not_have_is_refused(
    house: Machine, repository: Path, name: str
) -> None:
    door = await house.open()
    with pytest.raises(Invalid, match="cannot be a workspace's name"):
        await door.runtime.workspace.create(name=name)


@pytest.mark.slow
async def test_a_workspace_that_nobody_named_gets_a_name_of_its_own(house: Machine, repository: Path) -> None:
    door = await house.open()
    made = [await door.runtime.workspace.create() for _ in range(3)]
    assert len({info.name for info in made}) == 3


class Adapter:
    """An adapter of a plugin that does what a test tells it, and notes what it was asked."""

    name = "odd"
    description = "An odd one."

    def __init__(self, folder: Path, **does: Any) -> None:
        self.asked: list[str] = []
        self.folder = folder
        self.does = does

    async def _do(self, what: str, otherwise: Any) -> Any:
        self.asked.append(what)
        do = self.does.get(what, otherwise)
        return await do() if callable(do) else do

    async def configure(self, info: WorkspaceInfo) -> Any:
        return await self._do("configure", wire.replace(info, extra={"seen": True}))

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        assert env == {"INSTAR_WORKSPACE_ID": info.id}
        await self._do("create" if from_ is None else f"create from {from_.name}", None)

    async def remove(self, info: WorkspaceInfo) -> None:
        await self._do("remove", None)

    async def target(self, info: WorkspaceInfo) -> Any:
        return await self._do("target", LocalTarget(self.folder))


def registered(door: RuntimeUnderTest, **does: Any) -> Adapter:
    adapter = Adapter(door.runtime.instance.directory, **does)
    door.runtime.registry.register_workspace("odd", adapter)
    return adapter


async def fails() -> None:
    raise RuntimeError("no room")


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_plugins_adapter_is_asked_in_its_order(house: Machine) -> None:
    door = await house.open()
    adapter = registered(door)
    info = await door.runtime.workspace.create("odd", name="one", extra={"size": 1})
    assert info.extra == {"seen": True}
    await door.runtime.workspace.create("odd", name="two", from_id="one")
    assert (await door.client.create(SessionBody(workspace_id=info.id))).directory == str(house.folder)
    await door.runtime.workspace.remove("one")
    assert adapter.asked == [
        *("configure", "create", "configure", "create from one"),
        *("target", "remove"),
    ]
    assert [one.name for one in await door.runtime.workspace.list()] == ["two"]


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ({"configure": fails}, "'odd' failed on workspace x: RuntimeError: no room"),
        ({"configure": hangs}, "'odd' failed on workspace x: it did not answer within 0.05 s"),
        ({"configure": "nonsense"}, "it answered str"),
        ({"create": fails}, "'odd' failed on workspace x: RuntimeError: no room"),
        ({"create": hangs}, "did not answer"),
        ({"create": fails, "remove": fails}, "no room"),
    ],
)
async def test_a_workspace_that_could_not_be_made_is_unmade_and_named(
    house: Machine, monkeypatch: pytest.MonkeyPatch, does: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(workspace, "SHORT", 0.05)
    monkeypatch.setattr(workspace, "LONG", 0.05)
    door = await house.open()
    adapter = registered(door, **does)
    with pytest.raises(Invalid, match=said):
        await door.runtime.workspace.create("odd", name="x")
    assert ("remove" in adapter.asked) is ("create" in adapter.asked)
    assert await door.runtime.workspace.list() == []
    adapter.does = {}
    for name in ("SHORT", "LONG"):
        monkeypatch.setattr(workspace, name, 20)
    await door.runtime.workspace.create("odd", name="x")


async def test_an_adapter_cannot_turn_one_workspace_into_another(house: Machine) -> None:
    door = await house.open()
    other = WorkspaceInfo(id="wrk_other", type="odd", name="x", project_id="global")
    registered(door, configure=other)
    with pytest.raises(Invalid, match="changed the workspace's id"):
        await door.runtime.workspace.create("odd", name="x")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (RemoteTarget("https://far.example", {"Authorization": "hidden"}), "on another machine .https://far"),
        (LocalTarget(Path("relative")), "gave a relative folder"),
        (LocalTarget(Path("/gone/away")), "is gone"),
        (None, "it answered NoneType"),
        (fails, "no room"),
    ],
)
async def test_a_session_is_made_only_where_there_is_a_folder(house: Machine, target: Any, said: str) -> None:
    door = await house.open()
    registered(door, target=target)
    info = await door.runtime.workspace.create("odd", name="x")
    with pytest.raises(Invalid, match=said) as refused:
        await made_in(door, info)
    assert "hidden" not in str(refused.value)
    assert await door.client.list() == []


async def test_what_an_aborted_making_left_is_unmade(house: Machine) -> None:
    door = await house.open()
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        await hangs()

    adapter = registered(door, create=slow)
    making = asyncio.create_task(door.runtime.workspace.create("odd", name="x"))
    await begun.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert adapter.asked == ["configure", "create", "remove"]
    assert await door.runtime.workspace.list() == []


async def test_an_unknown_type_is_refused_and_names_those_that_there_are(house: Machine) -> None:
    door = await house.open()
    with pytest.raises(Invalid, match="of type 'odd'; there are: worktree"):
        await door.runtime.workspace.create("odd")


async def test_a_plugin_that_offers_half_an_adapter_is_named_and_skipped(house: Machine) -> None:
    house.plugin("""
        async def half(input, options):
            input.experimental_workspace.register("half", object())
    """)
    door = await house.open()
    assert "has no method configure, create, remove, target" in str(door.runtime.notices)
    assert list(await door.runtime.workspace.types()) == ["worktree"]


async def test_a_workspace_whose_plugin_is_gone_is_only_forgotten_by_force(house: Machine) -> None:
    door = await house.open()
    registered(door)
    await door.runtime.workspace.create("odd", name="x")
    later = await house.open()
    with pytest.raises(Invalid, match="of type 'odd'"):
        await later.runtime.workspace.remove("x")
    await later.runtime.workspace.remove("x", force=True)
    assert await later.runtime.workspace.list() == []


@pytest.mark.slow
async def test_a_workspace_in_which_a_session_runs_is_not_removed(house: Machine, repository: Path) -> None:
    house.says(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.01; done"}\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    there = await inside(house, info)
    session = await made_in(there, info)
    await there.start(session, "go")
    await there.running()
    with pytest.raises(Invalid, match=f"session {session} works in workspace fix"):
        await door.runtime.workspace.remove("fix", force=True)
    (Path(str(info.directory)) / "go").touch()
    await there.idle(session)
    await door.runtime.workspace.remove("fix", force=True)


@pytest.mark.parametrize("value", [{"info": {"id": 1}, "ready": True}, {"ready": True}, "text", 7, [1]])
async def test_a_workspace_that_cannot_be_read_is_left_out(house: Machine, value: Any) -> None:
    door = await house.open()
    await door.runtime.instance.store.commit([PutValue("instar", "workspace:wrk_1", value)])
    assert await door.runtime.workspace.list() == []


@pytest.mark.slow
async def test_two_makers_at_once_of_one_name_make_one(house: Machine, repository: Path) -> None:
    doors = [await house.open() for _ in range(3)]
    made = await asyncio.gather(
        *(door.runtime.workspace.create(name="same") for door in doors), return_exceptions=True
    )
    refused = [one for one in made if isinstance(one, Invalid)]
    assert len(refused) == 2
    assert all("there is a workspace same already" in str(one) for one in refused)
    assert len(git(repository, "worktree", "list").splitlines()) == 2


async def test_workspaces_of_another_project_are_not_listed(house: Machine, repository: Path) -> None:
    door = await house.open()
    info = await door.runtime.workspace.create(name="fix")
    other = house.folder.parent / "other"
    git(house.folder.parent, "init", "-q", "other")
    house.folder = other
    elsewhere = await house.open()
    assert await elsewhere.runtime.workspace.list() == []
    with pytest.raises(NotFound):
        await made_in(elsewhere, info)
