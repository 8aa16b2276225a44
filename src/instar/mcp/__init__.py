"""The MCP client: tools, resources and prompts of other programs, from the config's ``mcp`` block.

May import `provider` and what stands before it. Begin with `servers.py`: the runtime uses `Servers`. `server.py` is one
server, `link.py` the connection, `login.py` and `oauth.py` a person's login to a remote one. The SDK is imported and
the servers are started at the first step that needs them, or when a client asks for their status, never when instar
starts.
"""

from instar.mcp.login import LOGINS, Login, offers_login
from instar.mcp.server import LaunchContext, LinkError, State, Status, config_fault, prompt_name
from instar.mcp.servers import Servers

__all__ = [
    "LOGINS",
    "LaunchContext",
    "LinkError",
    "Login",
    "Servers",
    "State",
    "Status",
    "config_fault",
    "offers_login",
    "prompt_name",
]
