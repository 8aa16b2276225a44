"""A session apart, as a plugin asks for one (`Client.aside`, capability ``aside``): short-lived, hidden, without hooks.

Source: seed 003 ("Recursion guard", "Tool scoping", "Cancellation"), design section 5 ("sessions without hooks").
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from instar.message import ModelRef, Origin
from instar.wire import Plain

Ended = Literal["decided", "answered", "limit", "failed"]
"""How a session apart ended: `until` was called, the model was done, a limit was reached, it failed."""


class OwnTool(msgspec.Struct, frozen=True):
    """A tool that whoever asks for a session apart gives to it.

    `parameters` is a JSON Schema of an object; `take` gets arguments that fit it and returns what the model reads.
    """

    description: str
    parameters: Plain
    take: Callable[[Plain], Awaitable[str]]


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """Work for a session apart.

    `session_id` is the session that it is for, empty for none: what it uses counts for that one, booked as `cause`.
    `system` is the whole system prompt, `prompt` the task. `model` None is the small model; one without a provider is
    looked for by its name. `tools` are names of built-in tools; a plugin's tool only with both `write` and `network`,
    since no sandbox holds it. `own` are tools of the caller's, by name; the first call of `until`, one of them, ends
    the session. A model that ends its turn without that call is told once to make it, unless its text is `enough`.

    Without `write` no file of the project changes: editing tools refuse, and commands run in a sandbox on a copy.
    Without `network` nothing of it reaches the network. `steps` are its model calls at most, `timeout` its seconds
    for everything.
    """

    cause: str
    system: str
    prompt: str
    session_id: str = ""
    title: str = "a session apart"
    model: ModelRef | None = None
    tools: Sequence[str] = ()
    own: Mapping[str, OwnTool] = MappingProxyType({})
    until: str = ""
    enough: Callable[[str], bool] | None = None
    write: bool = False
    network: bool = False
    steps: int = 10
    timeout: float = 60.0
    origin: Origin | None = None


class Apart(msgspec.Struct, frozen=True):
    """What became of a session apart.

    `calls` are the arguments of each call of `Aside.until` in the answer that ended it, `text` what that answer said.
    `error` is a sentence on why it ended, unless it `ended` by itself. `steps` are model calls that were answered,
    `tokens` all of theirs, `cost` US dollars (None where a price is unknown), `ms` its wall-clock time. `model` is
    ``provider/model``, `session_id` the name that it had; nothing of it is kept.
    """

    session_id: str
    ended: Ended
    text: str = ""
    calls: Sequence[Plain] = ()
    error: str = ""
    steps: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    ms: int = 0
    model: str = ""
