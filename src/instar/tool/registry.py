"""The built-in tools by name."""

from instar.plugin.tool import Tool
from instar.tool import bash, edit, glob, grep, read, write


def builtin() -> dict[str, Tool]:
    """Return the built-in tools, in the order in which the model is shown them."""
    return {
        "bash": bash.TOOL,
        "read": read.TOOL,
        "glob": glob.TOOL,
        "grep": grep.TOOL,
        "edit": edit.TOOL,
        "write": write.TOOL,
    }
