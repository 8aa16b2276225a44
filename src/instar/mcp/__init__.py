"""The MCP client: tools, resources and prompts of other programs, from the config's ``mcp`` block.

`Servers` is what the runtime uses. The SDK is imported and the servers are started at the first step that
needs them, or when a client asks how they are (`link`), never when instar starts.
"""

from instar.mcp.definition import prompt_name
from instar.mcp.protocol import LinkError, Place
from instar.mcp.server import State, Status
from instar.mcp.servers import ASK, Servers

__all__ = ["ASK", "LinkError", "Place", "Servers", "State", "Status", "prompt_name"]
