"""A session's messages as hook scripts are given them."""

from instar.plugin import message, wire


def is_begun(info: message.Message) -> bool:
    """Whether a message is the answer that this very step is about to write."""
    return isinstance(info, message.Assistant) and info.time.completed is None


def said(found: message.WithParts) -> wire.Plain:
    """Return a message as scripts are given it: role, agent and parts."""
    parts = [message.part_to_plain(part) for part in found.parts]
    return {"role": _role(found.info), "agent": found.info.agent, "parts": parts}


def _role(info: message.Message) -> str:
    return "user" if isinstance(info, message.User) else "assistant"


def answer(parts: list[message.Part]) -> str:
    """Return the text of an answer."""
    return "\n".join(part.text for part in parts if isinstance(part, message.TextPart) and not part.ignored)
