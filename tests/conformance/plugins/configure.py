from typing import Any

from record import record


async def configure(door: Any, options: Any) -> Any:
    async def config(config: Any) -> None:
        record(options, hook="config", model=config["model"], providers=list(config["provider"]))
        poet = {"prompt": "You are a poet.", "mode": "primary", "description": "writes"}
        config["agent"] = {**config.get("agent", {}), "poet": poet}
        config["command"] = {**config.get("command", {}), "greet": {"template": "Greet $1.", "agent": "poet"}}

    return {"config": config}
