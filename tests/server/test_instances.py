import asyncio
from pathlib import Path

import pytest

from instar.document import DocumentError
from instar.plugin import Invalid, NotFound
from instar.server.instances import Instances


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


@pytest.mark.parametrize("name", ["/no/such/folder", "relative", "/etc/passwd", "/a\0b", "/" + "a" * 5000])
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
