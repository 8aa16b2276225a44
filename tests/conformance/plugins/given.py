from typing import Any

from record import record


async def given(door: Any, options: Any) -> Any:
    rest = {name: one for name, one in options.items() if name != "trace"}
    same = door.directory == door.worktree
    record(options, load="given", options=rest, same=same, vcs=door.project.vcs)

    async def message(given: Any, output: Any) -> None:
        kinds = {True: "function", False: "nothing"}
        listed, shell = kinds[callable(door.client.session.list)], kinds[callable(door.shell)]
        record(options, client=listed, url=door.server_url().partition("//")[0], shell=shell)

    return {"chat.message": message}
