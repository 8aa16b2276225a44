from typing import Any

from record import none, record

from instar.plugin import Ask, Tool

PARAMETERS = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}


async def ask(door: Any, options: Any) -> Any:
    async def deploy(args: Any, context: Any) -> str:
        record(options, tool="deploy", step="asks")
        await context.ask(Ask("deploy", [args["where"]], ["*"], {"cost": 3}))
        record(options, tool="deploy", step="goes")
        return f"deployed to {args['where']}"

    return {"tool": {"deploy": Tool("Deploys", PARAMETERS, deploy, permissions=none)}}
