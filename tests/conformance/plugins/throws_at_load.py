from typing import Any

from record import record


async def throws(door: Any, options: Any) -> Any:
    record(options, load="throws_at_load")
    raise RuntimeError("there is no wind")
