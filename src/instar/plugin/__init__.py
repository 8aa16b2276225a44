"""The plugin door: all that a plugin may use, ours and anybody's.

The flagships under ``instar.plugins`` import nothing else of instar.
"""

from instar import document, event, git, ids, message, permission, process, wire
from instar.plugin import points
from instar.plugin.client import Client, Messages, PermissionClient, QuestionClient, SessionClient
from instar.plugin.hookpoint import HookPoint, HookPoints
from instar.plugin.interface import KV, Hooks, Host, PluginFunction, PluginInput, Registry, View
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
from instar.plugin.shell import Background, Shell, ShellError, ShellResult
from instar.plugin.tool import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.plugin.workspace import (
    Careful,
    LocalTarget,
    RemoteTarget,
    Target,
    WorkspaceAdapter,
    WorkspaceClient,
    WorkspaceInfo,
)
from instar.project import Project

__all__ = [
    "KV",
    "Answer",
    "Ask",
    "Background",
    "Busy",
    "Careful",
    "Client",
    "CommandBody",
    "Done",
    "HookPoint",
    "HookPoints",
    "Hooks",
    "Host",
    "Invalid",
    "LocalTarget",
    "Messages",
    "NotFound",
    "PermissionClient",
    "PermissionDenied",
    "PluginFunction",
    "PluginInput",
    "Project",
    "PromptBody",
    "QuestionClient",
    "Registry",
    "RemoteTarget",
    "Reverted",
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
    "View",
    "WorkspaceAdapter",
    "WorkspaceClient",
    "WorkspaceInfo",
    "document",
    "event",
    "git",
    "ids",
    "message",
    "permission",
    "points",
    "process",
    "wire",
]
