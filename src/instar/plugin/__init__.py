"""The plugin door: all that a plugin may use, ours and anybody's.

The flagships under ``instar.plugins`` import nothing else of instar.
"""

from instar import document, event, git, ids, message, permission, process, wire
from instar.plugin import points
from instar.plugin.client import (
    Answer,
    Client,
    CommandBody,
    Done,
    Invalid,
    Messages,
    NotFound,
    PromptBody,
    QuestionClient,
    SessionBody,
    SessionClient,
    Task,
)
from instar.plugin.hookpoint import HookPoint, HookPoints
from instar.plugin.interface import KV, Hooks, Host, PluginFunction, PluginInput, Registry, View
from instar.plugin.tool import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.project import Project

__all__ = [
    "KV",
    "Answer",
    "Ask",
    "Client",
    "CommandBody",
    "Done",
    "HookPoint",
    "HookPoints",
    "Hooks",
    "Host",
    "Invalid",
    "Messages",
    "NotFound",
    "PermissionDenied",
    "PluginFunction",
    "PluginInput",
    "Project",
    "PromptBody",
    "QuestionClient",
    "Registry",
    "SessionBody",
    "SessionClient",
    "Task",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolResult",
    "View",
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
