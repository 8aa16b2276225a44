from typing import Any

from record import keys, record


async def env(door: Any, options: Any) -> Any:
    async def hook(given: Any, output: Any) -> None:
        here = given.cwd == str(door.directory)
        record(options, hook="shell.env", input=keys(given), here=here, env=output.env)
        output.env["CAPTAIN"] = "Ada"

    return {"shell.env": hook}
