from typing import Any

from record import keys, none, record

from instar.plugin import Tool

PARAMETERS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def definition(door: Any, options: Any) -> Any:
    async def greet(args: Any, context: Any) -> str:
        return f"hello {args['name']}"

    async def hook(given: Any, output: Any) -> None:
        if given.tool_id == "bash":
            described = len(output.description) > 0
            record(options, hook="tool.definition", input=keys(given), described=described)
            output.description = "Runs nothing."
        if given.tool_id == "greet":
            told = {"description": output.description, "required": output.json_schema["required"]}
            record(options, hook="tool.definition", **told)
            output.json_schema["properties"]["name"]["description"] = "Whom."

    tool = Tool("Greets somebody", PARAMETERS, greet, permissions=none)
    return {"tool": {"greet": tool}, "tool.definition": hook}
