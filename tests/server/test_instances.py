import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request

from instar.plugin import Invalid, NotFound
from instar.server.call import Call
from instar.server.instances import Instances
from instar.wire.document import DocumentError


@pytest.fixture
async def instances(clean_environment, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    made = Instances(folder, clean_environment)
    yield made
    await made.close()


async def test_requests_at_once_for_one_directory_share_its_runtime(instances, tmp_path):
    folder = str(tmp_path / "project")
    found = await asyncio.gather(*(instances.get(name) for name in (None, folder, folder + "/")))
    assert len({id(runtime) for runtime in found}) == 1


async def test_a_client_that_gives_up_does_not_take_the_runtime_from_the_others(instances):
    impatient = asyncio.create_task(instances.get(None))
    patient = asyncio.create_task(instances.get(None))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).instance.directory


@pytest.mark.parametrize(
    "name", ["/no/such/folder", ".", "relative", "/etc/passwd", "/a\0b", "/" + "a" * 5000]
)
async def test_only_folders_that_exist_are_opened(instances, name):
    with pytest.raises(Invalid, match="there is no folder"):
        await instances.get(name)


async def test_a_runtime_that_did_not_open_is_tried_again(instances, tmp_path):
    path = tmp_path / "project" / "opencode.json"
    path.write_text("{")
    for _ in range(2):
        with pytest.raises(DocumentError):
            await instances.get(None)
    path.unlink()
    assert await instances.get(None)


async def test_a_session_is_found_in_the_runtime_of_its_own_directory(instances, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    home = await instances.get(str(other))
    session = await home.session.create()
    assert await instances.of_session(session.id, None) is home
    with pytest.raises(NotFound):
        await instances.of_session("ses_none", None)


async def test_a_session_whose_folder_is_gone_opens_where_the_request_says(instances, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    session = await (await instances.get(str(other))).session.create()
    Path(other).rmdir()
    assert await instances.of_session(session.id, None) is await instances.get(None)


async def test_nothing_is_opened_after_the_end(instances):
    await instances.close()
    with pytest.raises(Invalid, match="shutting down"):
        await instances.get(None)


async def test_a_server_opens_its_own_directory_at_its_start_only_where_a_plugin_works_unasked(
    clean_environment, tmp_path, caplog
):
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "ws").mkdir()
    named = {**clean_environment, "INSTAR_WORKSPACE": str(tmp_path / "ws")}
    for environment, opened in ((clean_environment, 0), (named, 1)):
        made = Instances(folder, environment)
        await made.stand_by()
        assert len(made.opened()) == opened
        await made.close()
    (folder / "opencode.json").write_text('{"plugin": ["evolve"]}')
    listed = Instances(folder, {**clean_environment, "INSTAR_TRUST": "all"})
    await listed.stand_by()
    assert len(listed.opened()) == 1
    await listed.close()
    (folder / "opencode.json").write_text("{")
    broken = Instances(folder, clean_environment)
    await broken.stand_by()
    assert "opencode.json" in caplog.text


async def test_a_request_that_comes_while_an_instance_ends_waits_for_the_new_one(instances):
    first = await instances.get(None)
    ending = asyncio.create_task(instances.dispose(None))
    await asyncio.sleep(0)
    second = await instances.get(None)
    assert first.instance.closed
    assert (second is first, second.instance.closed) == (False, False)
    await ending
    assert instances.opened() == [second]


async def test_an_instance_may_end_before_it_has_opened(instances):
    opening = asyncio.create_task(instances.get(None))
    await asyncio.sleep(0)
    await instances.dispose(None)
    assert (await opening).instance.closed
    assert not (await instances.get(None)).instance.closed


async def test_all_instances_end_and_those_that_did_not_open_do_no_harm(instances, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    opened = await instances.get(None)
    (other / "opencode.json").write_text("{")
    broken = asyncio.create_task(instances.get(str(other)))
    await asyncio.sleep(0)
    await instances.dispose_all()
    with pytest.raises(DocumentError):
        await broken
    assert opened.instance.closed
    assert instances.opened() == []


async def test_an_error_that_came_of_the_instances_end_is_said_so(instances):
    scope = {"type": "http", "headers": [], "query_string": b"", "path": "/session", "method": "GET"}
    call = Call(Request(scope), instances)
    runtime = await call.runtime()
    unforeseen, mistake = RuntimeError("no more"), NotFound("x")
    assert call.explained(unforeseen) is unforeseen
    await instances.dispose(None)
    said = call.explained(unforeseen)
    assert isinstance(said, Invalid)
    assert (
        str(said)
        == f"the instance of {runtime.instance.directory} was disposed while this request ran; ask again"
    )
    assert call.explained(mistake) is mistake
