"""Messages under new ids: what a fork and an imported copy have in common."""

from collections.abc import Mapping

from instar import ids
from instar.message.info import Assistant, Message, WithParts
from instar.message.part import CompactionPart, FilePart, Part, ToolPart, UnknownPart


def renew(message: WithParts, known: Mapping[str, str]) -> None:
    """Give a message and its parts new ids, and let what names another one name that one's new id.

    `known` maps old ids of sessions and messages to new ones; it holds the message's own and its session's. An
    answer stays its question's, a compaction keeps its tail (None when that is not known), a `task` call its
    sub-agent's session. New ids of parts sort as the parts stand.
    """
    info: Message = message.info
    info.id, info.session_id = known[info.id], known[info.session_id]
    if isinstance(info, Assistant):
        info.parent_id = known.get(info.parent_id, info.parent_id)
    message.parts = [_part(part, info, known) for part in message.parts]


def _part(part: Part, info: Message, known: Mapping[str, str]) -> Part:
    if isinstance(part, UnknownPart):
        place = {"id": ids.new("prt"), "sessionID": info.session_id, "messageID": info.id}
        return UnknownPart(fields={**part.fields, **place})
    part.id, part.session_id, part.message_id = ids.new("prt"), info.session_id, info.id
    if isinstance(part, CompactionPart) and part.tail_start_id is not None:
        part.tail_start_id = known.get(part.tail_start_id)
    if isinstance(part, ToolPart):
        _renew_call(part, info, known)
    return part


def _renew_call(part: ToolPart, info: Message, known: Mapping[str, str]) -> None:
    metadata = getattr(part.state, "metadata", None) or {}
    for key in ("sessionId", "sessionID", "parentSessionId"):
        if isinstance(metadata.get(key), str):
            metadata[key] = known.get(metadata[key], metadata[key])
    attached: list[FilePart] = getattr(part.state, "attachments", None) or []
    for file in attached:
        file.id, file.session_id, file.message_id = ids.new("prt"), info.session_id, info.id
