"""The routes of sessions: ``/session`` and what is below it; pages of long lists and their cursors.

And those by which clients answer: permissions and questions that wait for a person. An answer finds its question in the
runtime of the request's directory, else in any that is open: a client that follows a session need not know where it
lives.
"""

import base64
import binascii
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from instar import wire
from instar.api.operation import operation
from instar.api.project import Project
from instar.api.session import (
    AnswersBody,
    ChangeBody,
    DiffQuery,
    ForkBody,
    GlobalQuery,
    GlobalSession,
    InitBody,
    MessageQuery,
    PermissionBody,
    ProjectSummary,
    ResponseBody,
    RevertBody,
    SessionQuery,
    ShellBody,
    SummarizeBody,
    ToolCallBody,
    WaitingReport,
)
from instar.event import PermissionAsked, QuestionAsked, SessionStatus, Todo
from instar.message import FileDiff, KnownPart, ModelRef, Session, WithParts
from instar.plugin import Busy, CommandBody, NotFound, PromptBody, QuestionClient, SessionBody
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import BadRequest, Formed, Missing
from instar.session.instance import Instance
from instar.wire import ids
from instar.wire.ids import MessageID, PartID, SessionID

if TYPE_CHECKING:
    from instar.runtime.client import InProcessSessions


class SessionRoutes:
    """Sessions, their messages and turns."""

    @operation("GET", "/session", "session.list")
    async def sessions(self, instance: Instance, query: SessionQuery) -> list[Session]:
        """List a project's sessions, archived ones too, last updated first; 100 unless `limit` says more."""
        found = await instance.store.sessions(instance.project.id, archived=True)
        here = str(instance.directory) if query.directory else None
        saying = await instance.store.saying(query.search.lower()) if query.search else ()
        wanted = [one for one in found if _is_wanted(one, query, saying) and _is_there(one, query, here)]
        return wanted[: int(USUAL if query.limit is None else query.limit)]

    @operation("GET", "/experimental/session", "experimental.session.list")
    async def everywhere(self, call: Call, instance: Instance, query: GlobalQuery) -> list[GlobalSession]:
        """List the sessions of all projects, last updated first; 100 unless `limit` says more.

        The header ``x-next-cursor`` names the next page.
        """
        until = query.cursor or math.inf
        saying = await instance.store.saying(query.search.lower()) if query.search else ()
        found = [
            one
            for one in await instance.store.sessions(archived=query.archived)
            if _is_wanted(one, query, saying)
            and one.time.updated < until
            and (not query.directory or one.directory == str(instance.directory))
        ]
        page = found[: int(USUAL if query.limit is None else query.limit)]
        announce(call, str(page[-1].time.updated) if 0 < len(page) < len(found) else None)
        known = {project.id: project for project in await instance.store.projects()}
        return [global_session(one, known) for one in page]

    @operation("POST", "/session", "session.create")
    async def create(self, call: Call, runtime: Runtime, body: SessionBody | None = None) -> Session:
        """Make a session."""
        given = body or SessionBody()
        try:
            if given.parent_id is not None:
                await call.of_session(given.parent_id)
            return await runtime.session.create(given)
        except NotFound as error:  # of the parent or the workspace: the document knows no 404 here
            raise BadRequest(str(error)) from error

    @operation("GET", "/session/status", "session.status")
    async def status(self, runtime: Runtime) -> dict[str, SessionStatus]:
        """Tell what each session does that is not idle."""
        return await runtime.session.status()

    @operation("GET", "/session/{sessionID}", "session.get", errors=(404,))
    async def get(self, runtime: Runtime, session_id: SessionID) -> Session:
        """Get a session."""
        return await runtime.session.get(session_id)

    @operation("DELETE", "/session/{sessionID}", "session.delete", errors=(404,))
    async def delete(self, runtime: Runtime, session_id: SessionID) -> bool:
        """Delete a session with all that belongs to it."""
        await runtime.session.delete(session_id)
        return True

    @operation("GET", "/session/{sessionID}/message", "session.messages", errors=(404,))
    async def messages(
        self, call: Call, runtime: Runtime, session_id: SessionID, query: MessageQuery
    ) -> list[WithParts]:
        """List a session's messages, oldest first.

        With a `limit` the newest ones; the headers ``link`` and ``x-next-cursor`` name the page before them.
        """
        sessions = runtime.session
        if not query.limit:
            if query.before and query.limit is None:
                raise Formed(400, {"_tag": "BadRequest"})
            return await sessions.messages(session_id)
        if query.before:
            found = before(await sessions.messages(session_id), query.before)
        else:
            found = await sessions.messages(session_id, query.limit + 1)
        page = found[-query.limit :]
        announce(call, mark_of(page[0]) if len(found) > len(page) else None, link="before")
        return page

    @operation("POST", "/session/{sessionID}/message", "session.prompt", errors=(404,))
    async def prompt(
        self, call: Call, runtime: Runtime, session_id: SessionID, body: PromptBody
    ) -> WithParts:
        """Send a prompt; answers when its turn is over and its events are sent."""
        try:
            return await runtime.session.prompt(session_id, body)
        finally:
            await call.instances.feed.delivered(call.request.headers.get("user-agent", ""))

    @operation("POST", "/session/{sessionID}/prompt_async", "session.prompt_async", status=204, errors=(404,))
    async def prompt_async(self, runtime: Runtime, session_id: SessionID, body: PromptBody) -> None:
        """Send a prompt; answers when its turn has begun."""
        await runtime.session.prompt_async(session_id, body)

    @operation("POST", "/session/{sessionID}/command", "session.command", errors=(404,))
    async def command(
        self, call: Call, runtime: Runtime, session_id: SessionID, body: CommandBody
    ) -> WithParts:
        """Run a command; answers when its turn is over and its events are sent."""
        try:
            return await runtime.session.command(session_id, body)
        finally:
            await call.instances.feed.delivered(call.request.headers.get("user-agent", ""))

    @operation("POST", "/session/{sessionID}/shell", "session.shell", errors=(404, 409))
    async def shell(self, runtime: Runtime, session_id: SessionID, body: ShellBody) -> WithParts:
        """Run a person's own shell command; answers with the message that holds what it printed."""
        return await runtime.session.shell(session_id, body)

    @operation("POST", "/instar/session/{sessionID}/tool", "instar.tool", errors=(404, 409))
    async def tool(self, runtime: Runtime, session_id: SessionID, body: ToolCallBody) -> WithParts:
        """Call a tool as the agent would, without a model; answers with the message that holds its outcome."""
        # No part of what plugins are given.
        return await cast("InProcessSessions", runtime.session).shell(session_id, body)

    @operation("POST", "/session/{sessionID}/init", "session.init", errors=(404,))
    async def init(self, runtime: Runtime, session_id: SessionID, body: InitBody) -> bool:
        """Let the model write the project's AGENTS.md, as the command `init` does; answers when it has."""
        model = f"{body.provider_id}/{body.model_id}"
        command = CommandBody(command="init", arguments="", model=model, message_id=body.message_id)
        await runtime.session.command(session_id, command)
        return True

    @operation("POST", "/session/{sessionID}/share", "session.share", errors=(404,))
    async def share(self, runtime: Runtime, session_id: SessionID) -> Session:
        """Refuse to share a session: nothing of it leaves this machine."""
        raise BadRequest("instar has no service that sessions could be shared with; see `instar export`")

    @operation("DELETE", "/session/{sessionID}/share", "session.unshare", errors=(404,))
    async def unshare(self, runtime: Runtime, session_id: SessionID) -> Session:
        """Return a session as it is: none is shared."""
        return await runtime.session.get(session_id)

    @operation("POST", "/experimental/session/{sessionID}/background", "experimental.session.background")
    async def background(self, call: Call, session_id: SessionID) -> bool:
        """Say that no sub-agent was sent to the background: a task's call waits for its answer here."""
        return False

    @operation("POST", "/session/{sessionID}/abort", "session.abort")
    async def abort(self, call: Call, session_id: SessionID) -> bool:
        """Abort a session's turn. Returns true, also when no turn runs or the session does not exist."""
        with contextlib.suppress(NotFound):
            await (await call.of_session(session_id)).session.abort(session_id)
        return True


def global_session(session: Session, known: Mapping[str, Project]) -> GlobalSession:
    """Return a session with its project, by what is known of projects; else by what the session says of its folder."""
    fields = {name: getattr(session, name) for name in session.__struct_fields__}
    project = known.get(session.project_id)
    if project is not None:
        whose = ProjectSummary(id=project.id, name=project.name, worktree=project.worktree)
        return GlobalSession(**fields, project=whose)
    worktree = worktree_of(session)
    said = None if worktree is None else ProjectSummary(id=session.project_id, worktree=worktree)
    return GlobalSession(**fields, project=said)


def worktree_of(session: Session) -> str | None:
    """Return the worktree that a session works in, which its folder lies in by its `path`; None where none is said."""
    below = f"/{session.path}" if session.path else ""
    if session.path is None or not session.directory.endswith(below):
        return None
    return session.directory.removesuffix(below) or "/"


def _is_there(session: Session, query: SessionQuery, here: str | None) -> bool:
    """Whether a session works where a query asks for; `here` is the folder that it names, as sessions name theirs."""
    if query.path:
        return session.path is not None and f"{session.path}/".startswith(f"{query.path.strip('/')}/")
    return query.path == "" or query.scope == "project" or here in (None, session.directory)


def _is_wanted(session: Session, query: SessionQuery | GlobalQuery, saying: Container[str]) -> bool:
    """Whether a query lets a session through; `saying` are those in which somebody said what it searches."""
    return (
        (not query.roots or session.parent_id is None)
        and (query.start is None or session.time.updated >= query.start)
        and (query.search.lower() in session.title.lower() or session.id in saying)
    )


_LATEST: Final = 8_640_000_000_000_000
"""The last millisecond that a client's clock knows; what is far beyond it cannot be stored."""


class HistoryRoutes:
    """A session's past."""

    @operation("PATCH", "/session/{sessionID}", "session.update", errors=(404,))
    async def change(
        self, runtime: Runtime, session_id: SessionID, body: ChangeBody | None = None
    ) -> Session:
        """Change a session's title or metadata, archive it, or add permission rules."""
        given = body or ChangeBody()
        archived = given.time.archived if given.time is not None else None
        if archived is not None and not 0 <= archived <= _LATEST:
            raise BadRequest(f"time.archived must be milliseconds since 1970, found {archived!r}")
        return await runtime.session.update(
            session_id,
            title=given.title,
            archived=None if archived is None else int(archived),
            metadata=given.metadata,
            permission=given.permission or (),
        )

    @operation("POST", "/session/{sessionID}/revert", "session.revert", errors=(404, 409))
    async def revert(self, runtime: Runtime, session_id: SessionID, body: RevertBody) -> Session:
        """Take a session and the files that it changed back to before a message."""
        done = await runtime.session.revert(session_id, body.message_id, body.part_id, files=body.files)
        return done.session

    @operation("POST", "/session/{sessionID}/unrevert", "session.unrevert", errors=(404, 409))
    async def unrevert(self, runtime: Runtime, session_id: SessionID) -> Session:
        """Undo a revert, the files with it."""
        return (await runtime.session.unrevert(session_id)).session

    @operation("POST", "/session/{sessionID}/fork", "session.fork", errors=(404,))
    async def fork(self, runtime: Runtime, session_id: SessionID, body: ForkBody | None = None) -> Session:
        """Make a session of copies of another one's messages."""
        return await runtime.session.fork(session_id, (body or ForkBody()).message_id)

    @operation("GET", "/session/{sessionID}/diff", "session.diff")
    async def diff(self, call: Call, session_id: SessionID, query: DiffQuery) -> Sequence[FileDiff]:
        """Tell how the files differ that a session changed; nothing of a session or message that is not there."""
        try:
            return await (await call.of_session(session_id)).session.diff(session_id, query.message_id)
        except NotFound:
            return []

    @operation("POST", "/session/{sessionID}/summarize", "session.summarize", errors=(404,))
    async def summarize(self, runtime: Runtime, session_id: SessionID, body: SummarizeBody) -> bool:
        """Summarise a session; answers when the summary is written."""
        model = ModelRef(provider_id=body.provider_id, model_id=body.model_id)
        await runtime.session.summarize(session_id, model)
        return True

    @operation("GET", "/session/{sessionID}/children", "session.children", errors=(404,))
    async def children(self, runtime: Runtime, session_id: SessionID) -> Sequence[Session]:
        """List the sessions whose parent a session is, last updated first."""
        return await runtime.session.children(session_id)

    @operation("GET", "/session/{sessionID}/todo", "session.todo", errors=(404,))
    async def todo(self, runtime: Runtime, session_id: SessionID) -> Sequence[Todo]:
        """Get a session's list of things to do."""
        return await runtime.session.todos(session_id)

    @operation("GET", "/session/{sessionID}/message/{messageID}", "session.message", errors=(404,))
    async def message(self, runtime: Runtime, session_id: SessionID, message_id: MessageID) -> WithParts:
        """Get a message."""
        return await runtime.session.message(session_id, message_id)

    @operation(
        "DELETE", "/session/{sessionID}/message/{messageID}", "session.deleteMessage", errors=(404, 409)
    )
    async def remove_message(self, runtime: Runtime, session_id: SessionID, message_id: MessageID) -> bool:
        """Delete a message; files stay as they are."""
        await runtime.session.remove(session_id, message_id)
        return True

    @operation(
        "DELETE", "/session/{sessionID}/message/{messageID}/part/{partID}", "part.delete", errors=(404,)
    )
    async def remove_part(
        self, runtime: Runtime, session_id: SessionID, message_id: MessageID, part_id: PartID
    ) -> bool:
        """Delete a part of a message. While a turn runs it is refused (400)."""
        sessions = runtime.session
        with unless_busy():
            await sessions.remove(session_id, message_id, part_id)
        return True

    @operation(
        "PATCH", "/session/{sessionID}/message/{messageID}/part/{partID}", "part.update", errors=(404,)
    )
    async def change_part(
        self,
        runtime: Runtime,
        session_id: SessionID,
        message_id: MessageID,
        part_id: PartID,
        body: KnownPart,
    ) -> KnownPart:
        """Change a part of a message; its type stays. While a turn runs it is refused (400)."""
        sessions = runtime.session
        if (body.id, body.message_id, body.session_id) != (part_id, message_id, session_id):
            raise BadRequest("the part's id, messageID and sessionID must be those of the path")
        with unless_busy():
            return await sessions.put_part(session_id, body)


@contextlib.contextmanager
def unless_busy() -> Iterator[None]:
    """Refuse what cannot be done while a turn runs, where the document knows no status for that but 400."""
    try:
        yield
    except Busy as error:
        raise BadRequest(str(error)) from error


USUAL: Final = 100
"""How many sessions a list has at most, where the query names no limit (as a real opencode 1.18.33 answers)."""


def seal(value: object) -> str:
    """Return a cursor: a value as JSON in base64 that may stand in a URL."""
    return base64.urlsafe_b64encode(wire.encode(value)).decode().rstrip("=")


def unseal(text: str) -> Any:
    """Return a cursor's content. Raises `ValueError` for an invalid one."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return wire.parse(data)
    except (binascii.Error, msgspec.DecodeError) as error:
        raise ValueError(f"no cursor: {error}") from None


def before(found: Sequence[WithParts], cursor: str) -> list[WithParts]:
    """Return the messages that stand before a page whose first message a cursor names.

    The cursor holds that message's id and time (ms): the message itself may be gone. Raises `Formed` (400, opencode's
    form for it) for a text that is no such cursor.
    """
    try:
        mark = msgspec.convert(unseal(cursor), _Mark)
    except (ValueError, msgspec.ValidationError):
        raise Formed(400, {"_tag": "BadRequest"}) from None
    return [one for one in found if (one.info.time.created, one.info.id) < (mark.time, mark.id)]


def mark_of(message: WithParts) -> str:
    """Return the cursor of the page that begins with a message."""
    return seal({"id": message.info.id, "time": message.info.time.created})


def announce(call: Call, cursor: str | None, *, link: str | None = None) -> None:
    """Name the next page in the answer's headers, if there is one; with `link` also its URL, by that query field."""
    if cursor is None:
        return
    call.headers["x-next-cursor"] = cursor
    if link is None:
        return
    url = call.request.url.remove_query_params(link).include_query_params(**{link: cursor})
    call.headers["link"] = f'<{url}>; rel="next"'
    call.headers["access-control-expose-headers"] = "Link, X-Next-Cursor"


class _Mark(msgspec.Struct):
    """What the cursor of a page of messages holds."""

    id: str = msgspec.field()
    time: float = msgspec.field()

    def __post_init__(self) -> None:
        if not self.id.startswith("msg"):
            raise ValueError("a message's id begins with msg")


class AnswerRoutes:
    """What waits for a person, and the answers."""

    @operation("GET", "/permission", "permission.list")
    async def permissions(self, runtime: Runtime) -> Sequence[PermissionAsked]:
        """List the tool calls that wait for a permission."""
        return await runtime.permission.list()

    @operation("GET", "/instar/waiting", "instar.waiting", scoped=False)
    async def waiting(self, call: Call) -> WaitingReport:
        """Tell what waits for a person and which sessions work, in all directories that are open."""
        found = WaitingReport(permissions=[], questions=[], status={})
        for runtime in call.instances.opened():
            found.permissions += await runtime.permission.list()
            found.questions += await runtime.question.list()
            found.status |= await runtime.session.status()
        return found

    @operation("POST", "/permission/{requestID}/reply", "permission.reply", errors=(404,))
    async def permit(self, call: Call, request_id: ids.PermissionID, body: PermissionBody) -> bool:
        """Answer a permission."""
        try:
            return await _anywhere(
                call, lambda runtime: runtime.permission.reply(request_id, body.reply, body.message)
            )
        except NotFound as error:
            raise Missing("PermissionNotFoundError", request_id, str(error)) from None

    @operation("POST", "/session/{sessionID}/permissions/{permissionID}", "permission.respond", errors=(404,))
    async def respond(
        self, runtime: Runtime, session_id: ids.SessionID, permission_id: ids.PermissionID, body: ResponseBody
    ) -> bool:
        """Answer a permission as older clients of opencode do."""
        waiting = [one.id for one in await runtime.permission.list() if one.session_id == session_id]
        if permission_id not in waiting:
            why = f"session {session_id} waits for no answer to {permission_id}"
            raise Missing("PermissionNotFoundError", permission_id, why)
        try:
            await runtime.permission.reply(permission_id, body.response)
        except NotFound as error:
            raise Missing("PermissionNotFoundError", permission_id, str(error)) from None
        return True

    @operation("GET", "/question", "question.list")
    async def questions(self, runtime: Runtime) -> Sequence[QuestionAsked]:
        """List the questions that wait."""
        return await runtime.question.list()

    @operation("POST", "/question/{requestID}/reply", "question.reply", errors=(404,))
    async def answer(self, call: Call, request_id: ids.QuestionID, body: AnswersBody) -> bool:
        """Answer questions."""
        return await _questioned(call, request_id, lambda to: to.reply(request_id, body.answers))

    @operation("POST", "/question/{requestID}/reject", "question.reject", errors=(404,))
    async def dismiss(self, call: Call, request_id: ids.QuestionID) -> bool:
        """Say that nobody will answer."""
        return await _questioned(call, request_id, lambda to: to.reject(request_id))


async def _questioned(
    call: Call, request_id: str, carry: Callable[[QuestionClient], Awaitable[None]]
) -> bool:
    try:
        return await _anywhere(call, lambda runtime: carry(runtime.question))
    except NotFound as error:
        raise Missing("QuestionNotFoundError", request_id, str(error)) from None


async def _anywhere(call: Call, carry: Callable[[Runtime], Awaitable[None]]) -> bool:
    """Carry an answer to the runtime that waits for it. Raises the `NotFound` of the request's own."""
    absent: NotFound | None = None
    async for runtime in _places(call):
        try:
            await carry(runtime)
        except NotFound as error:
            absent = absent or error
        else:
            return True
    assert absent is not None
    raise absent


async def _places(call: Call) -> AsyncIterator[Runtime]:
    named = await call.runtime()
    yield named
    for runtime in call.instances.opened():
        if runtime is not named:
            yield runtime
