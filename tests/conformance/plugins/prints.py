import sys
from typing import Any

from record import record


async def prints(door: Any, options: Any) -> Any:
    print("a plugin is loaded")

    async def message(given: Any, output: Any) -> None:
        record(options, hook="chat.message")
        print('{"jsonrpc": "2.0", "id": 1, "result": {}}')
        sys.stdout.write("half a line")
        print("and more", file=sys.stderr)

    return {"chat.message": message}
