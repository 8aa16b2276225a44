"""The scripts of a workspace: registered, looked at again, left out."""

import pytest

MANAGED = '{"system": ["%s"]}'


async def test_two_scripts_with_one_name_lose_their_tools_and_the_problem_names_both(kit, start, root):
    for file in ("a.sh", "b.sh"):
        kit.shell(root, file, discover='{"name": "p", "tools": [{"name": "t"}]}')
    running = await start(root)
    assert "p_t" not in running.tools
    assert "a.sh and b.sh both register the name 'p'" in running.problems[0]


async def test_a_script_without_its_run_bit_is_said_and_not_run(kit, start, root):
    kit.shell(root, "a.sh", mutate_request=MANAGED % "managed").chmod(0o644)
    running = await start(root)
    assert await running.system() == ["base"]
    assert "a.sh is missing its run bit: chmod +x" in running.problems[0]


@pytest.mark.slow
async def test_what_changed_on_disk_is_discovered_again_once_it_is_accepted(kit, start, root):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "one"}]}')
    running = await start(root)
    tools = running.tools
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "two"}]}')
    kit.shell(root, "b.sh", discover='{"tools": [{"name": "three"}]}')
    await running.step()
    assert running.tools is tools
    assert scripts_tools(tools) == ["a_one"]
    assert kit.calls(root, "b.sh", "discover") == []
    assert await running.accept() == ["hooks/a.sh", "hooks/b.sh"]
    assert running.tools is tools
    assert scripts_tools(tools) == ["a_two", "b_three"]
    await running.step()
    assert len(kit.calls(root, "b.sh", "discover")) == 1


def scripts_tools(tools) -> list[str]:
    return [name for name in tools if not name.startswith("evolve_")]


async def test_a_script_that_breaks_on_disk_goes_on_as_it_was_accepted(kit, start, root):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "one"}]}', execute_tool='{"result": "one"}')
    running = await start(root)
    kit.script(root / "hooks", "a.sh", "#!/bin/sh\nexit 3\n")
    await running.step()
    assert (await running.call("a_one")).output == "one"
    assert "hooks/a.sh was changed, behind the gate" in running.problems[0]


async def test_a_script_that_is_accepted_broken_loses_its_tools_rather_than_offering_old_ones(
    kit, start, root
):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "one"}]}')
    running = await start(root)
    kit.script(root / "hooks", "a.sh", "#!/bin/sh\nexit 3\n")
    await running.accept()
    await running.step()
    assert "a_one" not in running.tools
    assert "its tools are left out" in running.problems[0]
