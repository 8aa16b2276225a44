"""The plugin door: all that a plugin may use, ours and anybody's.

The flagships under ``instar.plugins`` import nothing else of instar.
"""

from instar import document, event, git, ids, message, permission, process, sandbox, secret, wire
from instar.api.workspace import WorkspaceInfo
from instar.children import Children
from instar.message import Origin
from instar.plugin import points
from instar.plugin.aside import Apart, Aside, OwnTool
from instar.plugin.client import Client, Messages, PermissionClient, QuestionClient, SessionClient
from instar.plugin.fetch import Fetch, FetchFailed, FetchRequest, FetchResponse
from instar.plugin.hookpoint import HookPoint, HookPoints, Refused
from instar.plugin.interface import KV, Hooks, Host, Means, PluginFunction, PluginInput, Registry, Server
from instar.plugin.request import (
    Answer,
    Busy,
    CommandBody,
    Done,
    Invalid,
    NotFound,
    PromptBody,
    Reverted,
    SessionBody,
    Task,
)
from instar.plugin.route import Bound, Operation, operation, operations
from instar.plugin.shell import Background, Shell, ShellError, ShellResult
from instar.plugin.tool import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.plugin.view import Branch, Method, Node, Value, View
from instar.plugin.workspace import (
    Careful,
    LocalTarget,
    RemoteTarget,
    Target,
    WorkspaceAdapter,
    WorkspaceClient,
)
from instar.project import Project

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
    "document",
    "event",
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
    "wire",
]
