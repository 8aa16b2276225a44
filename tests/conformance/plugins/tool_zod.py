from typing import Any

from record import none, record

from instar.plugin import Tool

PARAMETERS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "whom to greet"},
        "times": {"type": "integer", "minimum": 1, "maximum": 2**53 - 1, "default": 2},
        "loud": {"type": "boolean"},
        "tone": {"type": "string", "enum": ["warm", "cold"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


async def schema(door: Any, options: Any) -> Any:
    async def execute(args: Any, context: Any) -> str:
        record(options, tool="greet", args=args)
        return ", ".join([f"hello {args['name']}"] * args.get("times", 1))

    return {"tool": {"greet": Tool("Greets somebody", PARAMETERS, execute, permissions=none)}}
