"""What a shell reads as one word, checked by expressions of our own.

The grammar takes more for a word, a string or a comment than bash does (it ends words at other blanks, and
reads no backticks in a heredoc); text in which the two could differ is in doubt.
"""

import re
from typing import Final

from instar.tool.shell.word import listed

GAP: Final = re.compile(r"(?:[ \t]|\\\n)*")
"""What may stand between two words of one command."""
BREAK: Final = re.compile(r"(?:[ \t\n]|\\\n)*")
"""What may stand between two commands."""
DASH: Final = re.compile(r"[ \t]+-[ \t]+")
"""A word that the grammar loses in front of a redirection: ``python - <<EOF``."""
DASHED: Final = re.compile(rf"{BREAK.pattern}|{DASH.pattern}")
"""What may stand in front of a redirection."""
WORD: Final = re.compile(r"(?:[^\s\\'\"`$|&;()<>\x00-\x1f\x7f]|\\[^\r\x00])+", re.DOTALL)
"""Unquoted text of a word."""
PATTERN: Final = re.compile(r"(?:[^\\'\"`$&;<>\n\x00-\x08\x0b-\x1f]|\\.|\$(?=[)|\s]|$))+", re.DOTALL)
"""A pattern of `case` or ``[[ =~ ]]``: it may hold brackets."""
RAW: Final = re.compile(r"'[^']*'")
"""A text in single quotes."""
PLAIN: Final = re.compile(r"(?:[^\\\"`$]|\\.|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Text in double quotes in which nothing expands."""
HEREDOC: Final = re.compile(r"(?:[^\\`$]|\\[^\n]|\$(?![\w{(@*#?$!'\"-]))*", re.DOTALL)
"""Lines of a heredoc in which nothing expands."""
DELIMITER: Final = re.compile(
    r"(?P<plain>[\w.-]+)|'(?P<single>[\w .-]+)'|\"(?P<double>[\w .-]+)\"|\\(?P<escaped>\w+)"
)
"""What ends a heredoc, as it is named."""
VARIABLE: Final = re.compile(r"\$(?:(?P<name>[A-Za-z_]\w*)|[0-9@*#?$!-])")
"""A variable without braces."""
BRACED: Final = re.compile(
    r"\$\{(?:#?[@*#?$!-]|#?(?P<name>\w+)(?:\[(?:[@*]|\d+)\])?"
    r"(?P<rest>(?::?[-+?=]|##?|%%?|//?[#%]?|\^\^?|,,?)(?:[^`$\"'\\{}()<>]|\\[^\n])*|:-?\d+(?::\d+)?)?)\}"
)
"""A variable in braces, nothing else expanding in it. Others run what a variable holds: ``${x@P}``, ``${!x}``."""
OPENED: Final = re.compile(r"\$\{#?\w+(?:\[(?:[@*]|\d+)\])?(?::?[-+?=]|##?|%%?|//?|\^\^?|,,?)")
"""How a variable in braces begins in whose default or pattern something expands."""
DEFAULT: Final = re.compile(r"[^`$\"'\\{}()<>]*")
"""Text of such a default or pattern in which nothing expands."""
ARITHMETIC: Final = re.compile(r"[\w\s+*/%()<>=!&|^~?:;,-]*")
"""An expression without subscripts and expansions; each name in it is to hold a number."""
NAME: Final = re.compile(r"\b[A-Za-z_]\w*")
"""A variable in an expression."""
COMPARED: Final = re.compile(r"(?<!\S)-(?:eq|ne|lt|le|gt|ge|v|R)(?!\S)")
"""Tests whose operands are evaluated as expressions, or as a variable's name with its subscript."""
EVALUATED: Final = re.compile(r"-[A-Za-z]*[ivn]|(?=[^\[]*\[)[^$`]*[$`].*", re.DOTALL)
"""Words of `declare`, `read`, `unset`, `test` and `printf` by which a subscript or a value is evaluated."""
COMPOUND: Final = re.compile(r"\w+\+?=\(.*[$`<>]", re.DOTALL)
"""A quoted text that `declare` reads as an array, so that what stands in it expands."""
EVALUATING: Final = listed("declare typeset local export readonly unset read printf test [ wait getopts")
"""Builtins that evaluate a subscript in a name that they are given."""
NAMING: Final = listed("declare typeset local export readonly unset read getopts")
"""Builtins that take names: one that is not known may bring a subscript."""
INTEGERS: Final = listed("RANDOM SRANDOM SECONDS HISTCMD OPTIND LINENO")
"""Variables of bash whose value is evaluated as an expression when they are given one."""
RULING: Final = listed(
    "PATH CDPATH IFS PS4 ENV BASH_ENV LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT SHELLOPTS BASHOPTS"
)
"""Variables that decide what later commands run: no rule sees them set, but by an assignment."""
SETTING: Final = listed("read printf wait getopts mapfile readarray")
"""Builtins that give a variable that they are named a value which cannot be known."""
