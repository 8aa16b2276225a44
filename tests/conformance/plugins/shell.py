from typing import Any

from record import record


async def shell(door: Any, options: Any) -> Any:
    text = (await door.shell('echo "$1"', "a  b; echo c")).text()
    failed = await door.shell("exit 3", nothrow=True)
    lines = (await door.shell(r"printf 'x\ny\n'")).lines()
    found = (await door.shell("""echo '{"a": 1}'""")).json()
    record(options, text=text, code=failed.code, lines=list(lines), json=found)
    return {}
