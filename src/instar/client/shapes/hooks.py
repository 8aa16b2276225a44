"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any, Literal

import msgspec

from instar.wire import Wire


class RuleFigures(Wire):
    """What one rule came to at one event. `p50` and `slowest` in ms.

    `actions` counts what counted in the end: an undecided run is in `undecided`, and once more among them. `cost` is in
    US dollars; `unpriced` runs used tokens that have no known price.
    """

    rule: str
    event: str
    evaluator: str
    runs: int
    actions: dict[str, int]
    undecided: int
    p50: int
    slowest: int
    tokens: int
    cost: float
    unpriced: int
    last: int


class ArmedRule(Wire):
    """A rule that is armed. `condition` is its ``if``, `undecided` what becomes of it then.

    `problem` says why it cannot work all the same; empty: nothing is known against it.
    """

    event: str
    evaluator: str
    text: str
    matcher: str
    condition: str
    dialect: str
    place: str
    timeout: float
    undecided: str
    options: list[str]
    problem: str


class HookSettings(Wire):
    """The block. ``tighter`` tells the core which way a value guards more, from loose to tight."""

    enabled: bool = True
    on_error: Literal["dialect", "deny"] = msgspec.field(default="dialect", name="on_error")
    agent_pre_tool_use: bool = msgspec.field(default=False, name="agent_pre_tool_use")
    model: str = ""
    history_tokens: int = msgspec.field(default=8000, name="history_tokens")
    max_turns: int = msgspec.field(default=10, name="max_turns")


class RuleRun(Wire):
    """One line of a record: when (ms), the event's type, and its properties."""

    time: int
    type: str
    properties: dict[str, Any]


class HookStats(Wire):
    """What rules came to. `sessions` have been armed since `since` (ms; 0: ever); `folder` holds their records."""

    folder: str
    since: int
    sessions: int
    lines: list[RuleFigures]


class RulesInForce(Wire):
    """The rules of a directory. `problems` are sentences on what is not armed, or not as it is written."""

    directory: str
    settings: HookSettings
    rules: list[ArmedRule]
    problems: list[str]
