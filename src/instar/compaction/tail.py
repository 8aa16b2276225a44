"""What a compaction keeps as it is: the last turns, and the prompt that nobody answered yet."""

from instar.compaction.window import size
from instar.message import Assistant, TextPart, User, WithParts, mark_of


def conversation(sent: list[WithParts]) -> list[WithParts]:
    """Return visible messages without the compaction that they begin with."""
    return sent[2:] if sent and mark_of(sent[0]) is not None else sent


def waiting(history: list[WithParts], asked: User) -> list[WithParts]:
    """Return the prompts at the end that no step has worked on: `asked`, and those just before it.

    An answer to `asked` that failed does not count as work.
    """
    found: list[WithParts] = []
    for message in reversed(history):
        info = message.info
        if isinstance(info, User) and mark_of(message) is None:
            found.insert(0, message)
        elif not (isinstance(info, Assistant) and info.parent_id == asked.id and info.error is not None):
            break
    return found if any(message.info.id == asked.id for message in found) else []


def tail_start(messages: list[WithParts], turns: int, budget: int, held: list[WithParts]) -> str | None:
    """Return the id of the first message that is kept: of the last `turns` turns, as many as fit `budget` tokens.

    A turn begins at a person's message and is kept whole, so that no tool result loses its call. The messages
    `held` are kept whatever their size. None when nothing is kept: also when nothing would be left to summarise.
    """
    first = next((index for index, message in enumerate(messages) if message in held), None)
    starts = [index for index, message in enumerate(messages[:first]) if isinstance(message.info, User)]
    found, end = first, len(messages) if first is None else first
    for start in reversed(starts[-turns:] if turns else []):
        budget -= sum(map(size, messages[start:end]))
        if budget < 0:
            break
        found = end = start
    # If everything fitted, nothing would be left to summarise: what nobody answered is kept alone.
    found = found or first
    return messages[found].info.id if found else None


def is_going_on(message: WithParts) -> bool:
    """Whether a message only tells the session to go on after it was summarised."""
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    return bool(texts) and all((part.metadata or {}).get("compaction_continue") for part in texts)
