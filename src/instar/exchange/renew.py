"""A transcript under new ids: a copy that stands beside the session that it came from."""

from collections.abc import Sequence

from instar import ids
from instar.exchange.transcript import Transcript
from instar.message import renew
from instar.naming import slug


def renewed(transcripts: Sequence[Transcript]) -> list[Transcript]:
    """Give sessions, messages and parts new ids, and let what names one of them name the new one.

    Children stay their parents', answers their questions', a compaction keeps its tail, and a `task` call its
    sub-agent's session. Changes what it is given. Order is kept: the new ids sort as the messages stand.
    """
    known = {one.session.id: ids.new("ses") for one in transcripts}
    for one in transcripts:
        known.update((message.info.id, ids.new("msg")) for message in one.messages)
    for one in transcripts:
        session = one.session
        session.id, session.slug = known[session.id], slug()
        session.parent_id = known.get(session.parent_id or "", session.parent_id)
        for message in one.messages:
            renew(message, known)
    return list(transcripts)
