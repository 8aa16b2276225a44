"""Effects: what a hook's answer asks for beside its text: files that it changed, notices, and actions.

Each answer is handed in once; its `key` is the id of the message or call that it is about.
Observers fail open: an effect that fails is logged, and the hook's answer stands.

An action may begin a turn in a session, whose hooks may answer with actions again. So each message that one sends has
the origin of the turn that asked for it, one action further from its root (`Origin.depth`), which outlasts a restart.
Past `DEEPEST` none is carried out, whoever asks for it.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from instar.plugin import Client, Invalid, NotFound, Origin, PromptBody, SessionBody, event, message
from instar.plugins.evolve import protocol, script
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.history.trailers import counted, one_line
from instar.plugins.evolve.notices import HookNotice, Notices
from instar.plugins.evolve.protocol import as_text, clip
from instar.plugins.evolve.settings import EvolveSettings

MOST_FILES: Final = 1000
"""Files of one answer."""


class ModifiedFiles(NamedTuple):
    """The files, relative to the workspace, and a sentence on each name that is none."""

    files: list[str]
    problems: list[str]


def modified_files(root: Path, names: Any) -> ModifiedFiles:
    """Return what an answer names under ``modified``: files of the workspace `root`, also such as are deleted."""
    given = names if isinstance(names, list) else [names]
    files, problems = dict[str, None](), list[str]()
    for name in given[:MOST_FILES]:
        try:
            files[_file(root, name)] = None
        except (ValueError, OSError) as error:
            problems.append(f"{clip(as_text(name), 100)!r}: {error}")
    if len(given) > MOST_FILES:
        problems.append(f"{len(given) - MOST_FILES} more names were left out: {MOST_FILES} at most are read")
    return ModifiedFiles(list(files), problems)


def _file(root: Path, name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or "\0" in name or len(name) > 4096:
        raise ValueError("it is no path of a file")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("name files by their path inside the workspace")
    if ".git" in path.parts:
        raise ValueError("it is git's own")
    place = root / path
    if not place.parent.resolve().is_relative_to(root.resolve()):
        raise ValueError("its folder lies outside the workspace")
    if place.is_dir() and not place.is_symlink():
        raise ValueError("it is a folder: name the files in it")
    return path.as_posix()


log = logging.getLogger("instar.evolve")

DEEPEST: Final = 1
"""Actions on end that one heartbeat, or one prompt of a person, may lead to."""

MOST: Final = 16
"""Actions of one answer that are carried out."""

LONGEST: Final = 100_000
"""Characters of a message."""

SOURCE: Final = "evolve.send"
"""The source of the messages that actions send."""

KEYS = ("modified", "notify", "actions")
"""The keys of an answer that have effects."""

TOLD: Final = 100
"""Sessions that a notice is queued for: those that were used last."""

HOPS: Final = 1
"""Notices on end: a script may say one while it words another, and none while it words that."""

_Text = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=LONGEST)]


class Send(msgspec.Struct, frozen=True, tag_field="type", tag="send"):
    """Send a message to a session, which answers it; synthetic unless the script says otherwise."""

    session_id: _Text
    message: _Text
    synthetic: bool = True

    def __str__(self) -> str:
        return f"send to {one_line(self.session_id, 100)}"


class CreateSession(msgspec.Struct, frozen=True, tag_field="type", tag="create_session"):
    """Make a session."""

    title: _Text

    def __str__(self) -> str:
        return f"create_session {one_line(self.title, 100)!r}"


Action = Send | CreateSession


class ActionRequest(NamedTuple):
    """Who asks for an effect: a hook's answer in a session, known by its `key`, in a turn of `origin`."""

    hook: str
    session_id: str
    key: str
    origin: Origin

    def then(self) -> Origin:
        """Return the origin of what an action does that is asked for here."""
        return msgspec.structs.replace(self.origin.by(SOURCE), depth=self.origin.depth + 1)


def parse_actions(answer: protocol.Answer) -> tuple[list[Action], list[str]]:
    """Return the actions of a hook's answer, and a sentence on each that means nothing; the others stay."""
    found = answer.get("actions")
    actions, problems = list[Action](), list[str]()
    for number, one in enumerate([] if found is None else found if isinstance(found, list) else [found], 1):
        try:
            if len(actions) == MOST:
                raise ValueError(f"an answer may ask for {MOST} at most")
            actions.append(msgspec.convert(one, Action))
        except ValueError as error:
            said = one_line(f"{error}: {as_text(one)}", 300)
            problems.append(f"action {number} is left out; there are send and create_session: {said}")
    return actions, problems


def refusal(origin: Origin) -> str:
    """Return why no action may be carried out in a turn of this origin; "" when one may."""
    if origin.depth < DEEPEST:
        return ""
    root = "a prompt of a person" if origin.name == "person" else f"{origin.name} {origin.id}".strip()
    return f"{root} has led to {counted(origin.depth, 'action')} on end: a chain of actions ends there"


def no_agent(wanted: str, agents: Sequence[str]) -> str:
    """Say that the setting `heartbeat_agent` names an agent that is none of `agents`."""
    return f"heartbeat_agent: there is no agent {wanted!r}; there are: {', '.join(agents)}"


class HookEffects:
    """Carries out what answers ask for. `notices` holds what sessions are to be told, `settings` name the agent."""

    def __init__(
        self,
        engine: EvolveEngine,
        client: Client,
        notices: Notices,
        settings: Callable[[], EvolveSettings | None],
    ) -> None:
        self._engine = engine
        self._client = client
        self._notices = notices
        self._settings = settings
        self.filled: Callable[[], None] = lambda: None
        """Is called when there is something new to tell."""

    async def carry_out(
        self,
        hook: str,
        session_id: str,
        answer: protocol.Answer,
        *,
        key: str,
        source: str = "*",
        origin: Origin | None = None,
        hops: int = 0,
    ) -> None:
        """Carry out what `hook` answered with in a session. `source` is the script; ``*`` where several were merged.

        `origin` is whose the answer is: that of the session's turn where none is given. `hops` as in `HookNotice`.
        """
        asked = {name: answer[name] for name in KEYS if answer.get(name)}
        if not asked:
            return
        shown = script.show(asked)
        log.info("script=%s hook=%s session=%s key=%s effects=%s", source, hook, session_id, key, shown)
        try:
            asking = ActionRequest(hook, session_id, key, origin or await self._origin(session_id))
            if "modified" in asked:
                await self._modified(asking, asked["modified"])
            if "notify" in asked:
                await self._notify(asking, asked["notify"], hops)
            if "actions" in asked:
                await self.act(asking, answer)
        except Exception:
            log.exception("hook=%s session=%s effects=failed", hook, session_id)

    async def act(self, asking: ActionRequest, answer: protocol.Answer) -> list[str]:
        """Carry out the actions of an answer; return a sentence on each that was not. The others still happen."""
        actions, problems = parse_actions(answer)
        refused = refusal(asking.origin) if actions else ""
        for action in actions:
            problem = f"{action} is left out: {refused}" if refused else await self._act(action, asking)
            problems += [problem] if problem else []
        about = asking.hook, asking.session_id, asking.origin.chain
        for problem in problems:
            log.warning("hook=%s session=%s origin=%s problem=%r", *about, problem)
        if refused:
            await self._stopped(asking, "actions", refused)
        return problems

    async def _act(self, action: Action, asking: ActionRequest) -> str:
        try:
            await (self._send if isinstance(action, Send) else self._create)(action, asking)
        except (NotFound, Invalid) as error:
            return f"{action}: {error}"
        except Exception as error:
            log.exception("action=%s failed", action)
            return f"{action} failed: {type(error).__name__}: {error}"
        log.info("action=%r hook=%s session=%s origin=%s", str(action), *asking[:2], asking.origin.chain)
        return ""

    async def _send(self, action: Any, asking: ActionRequest) -> None:
        """Send the message; the session answers with the heartbeat agent.

        To the session that asks it is a follow-up, which has a cap of its own. A session that another process runs is
        refused by name.
        """
        body = PromptBody.text(action.message, synthetic=action.synthetic, agent=await self._agent())
        session = self._client.session
        if action.session_id == asking.session_id:
            await session.follow_up(action.session_id, body, SOURCE, asking.then())
        else:
            await session.prompt_async(action.session_id, body, asking.then())

    async def _create(self, action: Any, asking: ActionRequest) -> None:
        await self._client.session.create(SessionBody(title=one_line(action.title, 200)))

    async def _agent(self) -> str | None:
        """The heartbeat agent. Where nobody chose one, and there is none of the usual name, the session's own."""
        wanted = (self._settings() or EvolveSettings()).heartbeat_agent
        agents = await self._client.agents()
        if wanted in agents:
            return wanted
        if wanted == EvolveSettings().heartbeat_agent:
            return None
        raise Invalid(no_agent(wanted, agents))

    async def _origin(self, session_id: str) -> Origin:
        try:
            return await self._client.session.origin(session_id)
        except NotFound:
            return Origin()

    async def _modified(self, asking: ActionRequest, names: Any) -> None:
        found = modified_files(self._engine.real.root, names)
        for problem in found.problems:
            log.warning("hook=%s session=%s modified=refused reason=%r", *asking[:2], problem)
        if found.files:
            await self._engine.recording.named(asking.session_id, asking.key, found.files)

    async def _notify(self, asking: ActionRequest, said: Any, hops: int) -> None:
        if hops > HOPS:
            why = f"a notice led to {HOPS} more on end: this one is not told"
            await self._stopped(asking, "notices", why)
            return
        said = said if isinstance(said, list) else [said]
        to = [session.id for session in await self._client.session.list() if _is_live(session)]
        receivers = [session_id for session_id in to[:TOLD] if session_id != asking.session_id]
        self._notices.notify([HookNotice(one, asking.origin, hops) for one in said], receivers)
        self.filled()

    async def _stopped(self, asking: ActionRequest, limit: str, why: str) -> None:
        """Say that a chain has come to its end, where a person sees it."""
        log.warning(
            "limit reached session=%s hook=%s limit=%s: %s", asking.session_id, asking.hook, limit, why
        )
        happened = event.LimitReached(
            session_id=asking.session_id, limit=limit, cause=f"evolve.{asking.hook}", message=why, ends=False
        )
        await self._client.publish(event.make(happened))


def _is_live(session: message.Session) -> bool:
    """Whether a session is told notices: it was prompted before, is nobody's sub-agent and was not put away."""
    return session.parent_id is None and not session.time.archived and session.model is not None
