"""Whether a session may still make a model call or run a tool: a zombie may not (issue 7, item 8).

A session that was deleted, one that another process took over, one whose instance is closed; and an archived one
for everybody but a person.
"""

from instar.instance import Instance
from instar.lease import LEASE_MS, SessionBusy
from instar.live import Live
from instar.message import Origin


async def refusal(instance: Instance, live: Live | None, origin: Origin) -> str | None:
    """Return why a session, or a call without one (None), may not go on; None when it may.

    Asks the store only when the lease was not renewed for so long that another process may have it: after a
    machine slept.
    """
    if instance.closed:
        return "instar is closing"
    if live is None:
        return None
    if live.deleted:
        return f"session {live.id} was deleted"
    if live.session.time.archived and not origin.is_person:
        return f"session {live.id} was put away: only a person's prompt goes on with it"
    if live.held and live.lease_age() >= LEASE_MS:
        try:
            await instance.sessions.renew(live)
        except SessionBusy as error:
            return str(error)
    return None
