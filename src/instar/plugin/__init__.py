"""The plugin door: all that a plugin may use, ours and anybody's.

The flagships under ``instar.plugins`` import nothing else of instar. The room may import those of `wire` to `client`.
Begin with `points.py`, the hook points, and `interface.py`, what a plugin is given; `door.py` runs the hooks, and
`load.py` loads plugins. For writers of plugins: ``docs/guides/plugins.md``, ``docs/reference/plugin-api.md``.
"""

from typing import TYPE_CHECKING

from instar import event, git, message, process, wire
from instar.api.operation import Bound, Operation, operation, operations
from instar.api.project import WorkspaceInfo
from instar.api.session import Busy, CommandBody, Invalid, NotFound, PromptBody, SessionBody
from instar.git.project import Project
from instar.message import Origin
from instar.plugin import points
from instar.plugin.client import (
    Answer,
    Apart,
    Aside,
    Careful,
    Client,
    Done,
    LocalTarget,
    Messages,
    OwnTool,
    PermissionClient,
    QuestionClient,
    RemoteTarget,
    Reverted,
    SessionClient,
    Target,
    Task,
    WorkspaceAdapter,
    WorkspaceClient,
)
from instar.plugin.interface import (
    KV,
    Fetch,
    FetchFailed,
    FetchRequest,
    FetchResponse,
    Hooks,
    Host,
    Means,
    PluginFunction,
    PluginInput,
    Registry,
    Server,
)
from instar.plugin.points import HookPoint, HookPoints, Refused
from instar.plugin.shell import Background, Shell, ShellError, ShellResult
from instar.plugin.tool import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.plugin.view import Branch, Method, Node, Value, View
from instar.plugin.waiting import HookWait
from instar.sandbox.model_process import Children
from instar.settings import accepted, permission
from instar.settings.plugin_folders import PluginFolder
from instar.settings.steered import accepted_environment, accepted_words, started
from instar.store import StoreError, sqlite
from instar.wire import document, front_matter, ids, secret

if TYPE_CHECKING:
    # Start-up time: who names it imports it.
    from instar.plugin import sandbox  # noqa: TC004 - a module of the package: `import *` imports it

__all__ = [
    "KV",
    "Answer",
    "Apart",
    "Aside",
    "Ask",
    "Background",
    "Bound",
    "Branch",
    "Busy",
    "Careful",
    "Children",
    "Client",
    "CommandBody",
    "Done",
    "Fetch",
    "FetchFailed",
    "FetchRequest",
    "FetchResponse",
    "HookPoint",
    "HookPoints",
    "HookWait",
    "Hooks",
    "Host",
    "Invalid",
    "LocalTarget",
    "Means",
    "Messages",
    "Method",
    "Node",
    "NotFound",
    "Operation",
    "Origin",
    "OwnTool",
    "PermissionClient",
    "PermissionDenied",
    "PluginFolder",
    "PluginFunction",
    "PluginInput",
    "Project",
    "PromptBody",
    "QuestionClient",
    "Refused",
    "Registry",
    "RemoteTarget",
    "Reverted",
    "Server",
    "SessionBody",
    "SessionClient",
    "Shell",
    "ShellError",
    "ShellResult",
    "StoreError",
    "Target",
    "Task",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "Value",
    "View",
    "WorkspaceAdapter",
    "WorkspaceClient",
    "WorkspaceInfo",
    "accepted",
    "accepted_environment",
    "accepted_words",
    "document",
    "event",
    "front_matter",
    "git",
    "ids",
    "message",
    "operation",
    "operations",
    "permission",
    "points",
    "process",
    "sandbox",
    "secret",
    "sqlite",
    "started",
    "wire",
]
