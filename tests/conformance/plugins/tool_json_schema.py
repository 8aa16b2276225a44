from typing import Any

from record import none, record

from instar.plugin import Tool, ToolResult

PARAMETERS = {
    "type": "object",
    "properties": {
        "what": {"type": "string", "description": "what to weigh"},
        "unit": {"type": "string", "enum": ["g", "kg"]},
    },
    "required": ["what", "unit"],
}


async def schema(door: Any, options: Any) -> Any:
    async def execute(args: Any, context: Any) -> ToolResult:
        record(options, tool="weigh", args=args)
        return ToolResult(f"{args['what']}: 3 {args['unit']}", "Weighed", {"grams": 3})

    return {"tool": {"weigh": Tool("Weighs something", PARAMETERS, execute, permissions=none)}}
