"""What a call used, for a server that does not say: so that limits and summaries hold there too (issue 7, item 8).

A token is taken to be four bytes of the request's JSON, and four characters of the answer.
"""

import re
from typing import Final

from instar.message import CacheTokens, Tokens
from instar.provider.protocol import Delta, Finish, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart

PER_TOKEN: Final = 4
FILE: Final = 1_500
"""Tokens of an attached picture or document: its base64 text is not what a model reads."""
_BASE64: Final = re.compile(rb'"(?:data:[^",]{0,100},)?[A-Za-z0-9+/=]{2000,}"')


def size(delta: Delta) -> int:
    """Return how many characters of an answer a delta brings."""
    match delta:
        case TextDelta() | ReasoningDelta() | ToolCallDelta():
            return len(delta.text)
        case ToolCallStart():
            return len(delta.name)
    return 0


def counted(finish: Finish, content: bytes, said: int) -> Finish:
    """Return the end of an answer with a count, estimated where the server gave none.

    `content` is the body that was sent, `said` the characters of the answer.
    """
    given = finish.tokens
    if given.input or given.output or given.reasoning or given.cache.read or given.cache.write:
        return finish
    rest, files = _BASE64.subn(b"", content)
    sent, made = len(rest) // PER_TOKEN + files * FILE, -(-said // PER_TOKEN)
    tokens = Tokens(
        total=sent + made, input=sent, output=made, reasoning=0, cache=CacheTokens(read=0, write=0)
    )
    return Finish(finish.reason, tokens)
