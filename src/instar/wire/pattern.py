"""Regular expressions that are compiled when they are first used: to compile all of them takes a tenth of a start."""

import re
from typing import Any, AnyStr, cast


class LatePattern:
    """Stands for the compiled expression; a method is looked up there once."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self.pattern = expression
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the expression (`re` keeps the last 512) and keep its attribute as one of this object."""
        found = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, found)
        return found


def late_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what has the methods of ``re.compile(expression, flags)``.

    It is no `re.Pattern`: call its methods, do not hand it to a function of `re`. An error in the expression shows
    when it is first used.
    """
    return cast("re.Pattern[AnyStr]", LatePattern(expression, flags))
