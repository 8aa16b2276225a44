"""The list of things to do, through a session."""

import json

from instar.event import Todo
from instar.testing import Machine, results

pytest_plugins = ["tests.turn"]

ENTRY = {"content": "write", "status": "in_progress", "priority": "high"}
OTHER = {"content": "test", "status": "completed", "priority": "low"}


async def test_a_list_is_kept_published_and_read_again(house: Machine) -> None:
    house.says(f"""
        == turn
        tool: todowrite {json.dumps({"todos": [ENTRY, OTHER]})}

        == turn
        tool: todoread {{}}

        == turn
        tool: todowrite {json.dumps({"todos": [OTHER]})}

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    first, read, second = map(json.loads, results(await door.stored(session)))
    assert (first, read, second) == ([ENTRY, OTHER], [ENTRY, OTHER], [OTHER])
    assert await door.client.todos(session) == [Todo(**OTHER)]
    assert [len(event.todos) for event in door.of("todo.updated")] == [2, 1]
    await door.runtime.close()
    again = await house.open()
    assert await again.client.todos(session) == [Todo(**OTHER)]
    await again.client.delete(session)
    assert await again.runtime.instance.store.todos(session) == []


async def test_a_list_that_is_too_long_or_malformed_is_refused(house: Machine) -> None:
    house.says(f"""
        == turn
        tool: todowrite {json.dumps({"todos": [ENTRY] * 201})}
        tool: todowrite {{"todos": [{{"content": "x"}}]}}

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    long, malformed = results(await door.stored(session))
    assert long == "A list holds at most 200 entries, not 201."
    assert "todos[0]" in malformed
    assert await door.client.todos(session) == []
