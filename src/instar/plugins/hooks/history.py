"""A session's history as text, its end first when not all of it fits: what ``context: ["history"]`` gives."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from instar.plugin import message

PER_TOKEN: Final = 4
"""Characters that are taken for a token: what tokenizers make of English and code, on the safe side."""
LONGEST: Final = 2000
"""Characters of one tool's input or result."""


def told(history: Sequence[message.WithParts], tokens: int) -> str:
    """Return the newest messages that fit into `tokens`, oldest first; of one that does not fit, its end."""
    room = tokens * PER_TOKEN
    found: list[str] = []
    for one in reversed(history):
        text = "\n".join(_lines(one))
        if len(text) > room:
            found.append(
                f"(… {len(text) - room} characters and what was before are left out …)\n{text[len(text) - room :]}"
            )
            break
        found.append(text)
        room -= len(text)
    return "\n\n".join(reversed([text for text in found if text]))


def _lines(one: message.WithParts) -> Iterator[str]:
    for part in one.parts:
        if isinstance(part, message.TextPart) and not part.ignored and part.text.strip():
            yield f"{one.info.role}: {part.text.strip()}"
        elif isinstance(part, message.ToolPart):
            state = part.state
            yield f"tool {part.tool} {_cut(json.dumps(state.input, ensure_ascii=False))}"
            result = getattr(state, "output", None) or getattr(state, "error", None)
            if result:
                yield f"result: {_cut(str(result))}"


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} (… {len(text) - LONGEST} characters left out …) {text[-half:]}"
