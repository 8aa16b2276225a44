"""What can never be reached by a path: the seed's blocked names, and Python's own (seed 001 "What is blocked").

None of it is in the tree, so these names keep nobody out: they give the refusal that the seed gives.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

BLOCKED: Final = frozenset(
    (
        *("bus", "provider", "_running", "_config_defaults", "_runtime_vars", "_config_snapshots"),
        *("_unregistered_tools", "_critical_tool_backup"),
    )
)
"""What corrupts messages or model calls, ends the loop, or is the tool's own (seed 001, the reference)."""
DENIED: Final = frozenset(("func_globals", "func_code"))
"""Python's own without two underscores (the reference)."""
ITSELF: Final = "self"
"""The tool that cannot be taken away: who did would lock itself out."""


def is_denied(name: str) -> bool:
    """Whether a name is Python's own, however it is written."""
    bare = folded(name)
    return bare.startswith("__") or bare in DENIED


def is_blocked(name: str) -> bool:
    """Whether a name is refused as such, however it is written."""
    return is_denied(name) or folded(name) in BLOCKED


def first(names: Iterable[str]) -> str | None:
    """Return the first of the names that is refused as such."""
    return next((name for name in names if is_blocked(name)), None)


def folded(name: str) -> str:
    """Return a name without what only looks different: width, case, blanks and what is not printed."""
    text = unicodedata.normalize("NFKC", name)
    seen = "".join(one for one in text if unicodedata.category(one) not in ("Cf", "Cc", "Zs", "Mn"))
    return seen.casefold()
