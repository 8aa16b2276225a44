"""What model calls used, as it is booked and as it is asked for."""

import msgspec

from instar.message import PERSON, Tokens


class Usage(msgspec.Struct, frozen=True):
    """Tokens and cost (US dollars, None where the price is unknown) of one model call and its cause.

    `cause` is its purpose (``turn``, ``task``, ``title``, ``compaction``, a plugin's word …); `origin`, `origin_id`
    and `source` are the fields of its `Origin`; `turn_id` is the message that it works on, `agent` who calls, and
    `root_id` the session at the top of the tree, None of them known for calls of old versions.
    """

    session_id: str
    message_id: str | None
    cause: str
    provider_id: str
    model_id: str
    tokens: Tokens
    cost: float | None
    created: int
    origin: str = PERSON
    origin_id: str = ""
    source: str = ""
    agent: str = ""
    turn_id: str = ""
    root_id: str = ""


class Sum(msgspec.Struct, frozen=True):
    """What booked calls come to: how many, all their tokens, US dollars, and how many had no known price."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0


class Share(msgspec.Struct, frozen=True):
    """Of which booked calls a sum is wanted, from the full hour of `since` (ms) on.

    `scope` is ``session`` (`key`: the root session of a tree), ``origin`` (``heartbeat:12``), ``day`` (no key) or
    ``cause`` (an origin's name, a source or a purpose). Only the last two know times.
    """

    scope: str
    key: str = ""
    since: int = 0
