"""An MCP server of one tool, without a library."""

import json
import os
import sys

TOOL = {"name": "now", "description": "The weather now", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        answer = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "near", "version": "1"},
        }
    elif asked["method"] == "tools/list":
        answer = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        named = "PLUGIN_ROOT" in os.environ
        answer = {"content": [{"type": "text", "text": f"rain in {os.environ['CITY']}, root named: {named}"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
