"""A session's own fields in the newer form."""

from instar.api.session_message import RevertState, TokenCount
from instar.api.session_v2 import KnownTimes, LocationRef, SessionV2Info
from instar.message import Revert, Session, Tokens


def session_info(session: Session) -> SessionV2Info:
    """Return a session in the newer form."""
    time = session.time
    return SessionV2Info(
        id=session.id,
        parent_id=session.parent_id,
        project_id=session.project_id,
        agent=session.agent,
        model=session.model,
        cost=session.cost,
        tokens=token_count(session.tokens),
        time=KnownTimes(created=time.created, updated=time.updated, archived=time.archived),
        title=session.title,
        location=LocationRef(directory=session.directory, workspace_id=session.workspace_id),
        subpath=session.path or None,
        revert=None if session.revert is None else revert_state(session.revert),
    )


def revert_state(revert: Revert) -> RevertState:
    """Return where a session was taken back to in the newer form."""
    return RevertState(
        message_id=revert.message_id, part_id=revert.part_id, snapshot=revert.snapshot, diff=revert.diff
    )


def token_count(tokens: Tokens) -> TokenCount:
    """Return tokens without their total, which the newer form does not have."""
    return TokenCount(
        input=tokens.input, output=tokens.output, reasoning=tokens.reasoning, cache=tokens.cache
    )
