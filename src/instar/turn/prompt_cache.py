"""Attributes prompt-cache misses to plugins.

A step's `RequestTrace` notes what each plugin leaves at the hooks that change a request. Once the answer is whole it
compares the request with the session's last one, books a break, and keeps the request for the next.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from instar.message import TextPart, ToolCompleted, ToolPart, User, WithParts, mark_of
from instar.plugin import points
from instar.provider.convert import Remembered, values_of
from instar.provider.prompt_cache import (
    Block,
    Break,
    Cause,
    Head,
    Note,
    Prefix,
    Stage,
    ToolMark,
    mark,
    parted,
    parted_stage,
    parted_tool,
    read_note,
    writes,
)
from instar.provider.protocol import ModelRequest, PromptPiece, Sent, ToolSpec
from instar.session.instance import Instance
from instar.session.state import SessionState, now
from instar.wire import encode

log = logging.getLogger("instar.prefix")


class RequestTrace:
    """Records how plugins change one request. Each `saw_…` gets the output after one plugin."""

    def __init__(self, live: SessionState, user: User, agent: str) -> None:
        self._live = live
        self._agent = agent
        self._asked = mark(encode([user.system, user.tools, user.format, user.model.variant]))
        self._owners: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._defined: dict[str, list[bytes]] = {}
        self._system: list[Stage] = []
        self._characters: list[tuple[str, int]] = []
        self._texts: list[tuple[str, int]] = []
        self._options: list[Stage] = []
        self._stages: list[tuple[str, list[int]]] = []
        self._messages: Sequence[WithParts] = ()
        self._sent: Sent | None = None

    def offers(self, specs: Sequence[ToolSpec], owners: Mapping[str, str]) -> None:
        """Note the tools as they stand before hooks; `owners` names the plugin of each that is a plugin's."""
        self._owners = dict(owners)
        for spec in specs:
            self._own[spec.name] = _definition(spec)

    def saw_definition(self, plugin: str, output: points.DefinitionOutput) -> None:
        """A plugin's hook on a tool's definition."""
        self._defined.setdefault(plugin, []).append(encode([output.description, output.parameters]))

    def saw_step(self, plugin: str, output: points.StepOutput) -> None:
        """A plugin's hook before the step: it may give the whole system prompt."""
        if output.system is not None:
            self.system(plugin, output.system)

    def saw_system(self, plugin: str, output: points.SystemOutput) -> None:
        """A plugin's hook on the system prompt."""
        self.system(plugin, output.system)

    def system(self, plugin: str, texts: list[str]) -> None:
        """Note the system prompt after a plugin, or after the core ("")."""
        self._system.append((plugin, mark(encode(texts))))
        self._characters.append((plugin, sum(map(len, texts))))

    def messages(self, messages: list[WithParts], *, hooked: bool) -> None:
        """The messages before hooks; `hooked`: there are hooks on them."""
        self._messages = messages
        if hooked:
            self._stages.append(("", _marks(messages)))
            self._texts.append(("", _characters(messages)))

    def saw_messages(self, plugin: str, output: points.MessagesOutput) -> None:
        """A plugin's hook on the messages."""
        self._stages.append((plugin, _marks(output.messages)))
        self._texts.append((plugin, _characters(output.messages)))

    def options(self, request: ModelRequest) -> None:
        """The parameters before hooks."""
        self._options.append(("", self._parameters(request.model.protocol, request.options, request)))

    def saw_params(self, request: ModelRequest, plugin: str, output: points.ParamsOutput) -> None:
        """A plugin's hook on the parameters."""
        self._options.append((plugin, self._parameters(request.model.protocol, output.options, request)))

    def _parameters(self, protocol: str, options: Mapping[str, Any], request: ModelRequest) -> str:
        # Anthropic's cache compares thinking and the choice of tools before the messages; the others compare neither.
        if protocol != "anthropic":
            return ""
        chosen = [request.tool_choice, options.get("disableParallelToolUse"), options.get("thinking")]
        return mark(encode(chosen))

    def sent(self, sent: Sent) -> None:
        """Note what the provider was sent; of several attempts the last."""
        self._sent = sent

    async def settle(self, instance: Instance, request: ModelRequest) -> None:
        """Compare the request, which was answered, with the session's last one; book what broke; keep it."""
        if self._sent is None:
            return
        live, sent = self._live, self._sent
        # A prompt and the answer that is being written: nothing was sent of this session before.
        is_first = len(live.history) <= 2
        before = live.prefix or (None if is_first else await read_note(instance.store, live.id))
        head = self._head(request, sent)
        hooked = self._stages, self._characters, self._texts
        prefix = Prefix(head, now(), sent.messages, *hooked, sent.digests)
        broken = None if before is None else self._compare(before, prefix, sent)
        await instance.store.commit(writes(live.id, prefix, broken))
        live.prefix, live.system = prefix, request.system
        if broken is not None:
            say = log.info if broken.is_asked else log.warning
            said = (broken.block, broken.place, broken.plugin or broken.cause, broken.lost)
            say("cache broken session=%s block=%s place=%s by=%s bytes=%d", live.id, *said)

    def _head(self, request: ModelRequest, sent: Sent) -> Head:
        tools = [
            ToolMark(tool.name, self._owners.get(tool.name, ""), tool.digest.hex()[:16], self._own[tool.name])
            for tool in sent.tools
        ]
        first = self._messages[0] if self._messages else None
        return Head(
            model=request.model.ref,
            agent=self._agent,
            asked=self._asked,
            tools=tools,
            defined=[(name, mark(b"".join(found))) for name, found in self._defined.items()],
            system=[*self._system, ("", sent.system.digest.hex()[:16])],
            options=self._options,
            start=first.info.id if first is not None and mark_of(first) is not None else "",
        )

    def _compare(self, before: Prefix | Note, now: Prefix, sent: Sent) -> Break | None:
        was, head = before.head, now.head
        if was.model != head.model:
            return self._break("model", "model", "", head.model, _all_lost(before, sent) + _size(sent.tools))
        if [(tool.name, tool.sent) for tool in was.tools] != [(tool.name, tool.sent) for tool in head.tools]:
            return self._broken_tool(was, head, _all_lost(before, sent) + _size(sent.tools))
        if was.system[-1] != head.system[-1]:
            plugin = parted_stage(was.system[:-1], head.system[:-1])
            return self._blamed(was, "system", plugin, "", _all_lost(before, sent))
        if was.options[-1:] and head.options[-1:] and was.options[-1][1] != head.options[-1][1]:
            lost = _size(sent.messages[: _count(before)])
            return self._blamed(was, "options", parted_stage(was.options, head.options), "", lost)
        place = parted(before, sent.messages)
        return None if place is None else self._broken_message(before, now, sent, place)

    def _broken_tool(self, was: Head, head: Head, lost: int) -> Break:
        tool, hooked = parted_tool(was.tools, head.tools)
        if not hooked and was.asked != self._asked:
            return self._blamed(was, "tools", "", tool.name, lost)
        plugin = parted_stage(was.defined, head.defined) if hooked else tool.owner
        return self._blamed(was, "tools", plugin, tool.name, lost)

    def _broken_message(self, before: Prefix | Note, now: Prefix, sent: Sent, place: int) -> Break:
        piece = sent.messages[place] if place < len(sent.messages) else None
        lost = _size(sent.messages[place : _count(before)])
        where = f"{piece.name} (message {place + 1})" if piece else f"message {place + 1}, which is gone"
        if before.head.start != now.head.start or self._was_cleared(
            piece.name if piece else "", before.created
        ):
            return self._break("messages", "compaction", "", where, lost)
        plugin = _blamed_stage(before.stages if isinstance(before, Prefix) else [], now.stages, place)
        return self._break("messages", "plugin" if plugin else "history", plugin, where, lost)

    def _was_cleared(self, message_id: str, since: int) -> bool:
        """Whether an output of a message was pruned since the last request."""
        found = next((message for message in self._messages if message.info.id == message_id), None)
        return found is not None and any(
            isinstance(part, ToolPart)
            and isinstance(part.state, ToolCompleted)
            and (part.state.time.compacted or 0) >= since
            for part in found.parts
        )

    def _blamed(self, was: Head, block: Block, plugin: str, place: str, lost: int) -> Break:
        """Return the cause of a break: another agent, a plugin, the prompt's own options, or settings."""
        if was.agent != self._agent:
            return self._break(block, "agent", "", place, lost)
        if plugin:
            return self._break(block, "plugin", plugin, place, lost)
        return self._break(block, "prompt" if was.asked != self._asked else "settings", "", place, lost)

    def _break(self, block: Block, cause: Cause, plugin: str, place: str, lost: int) -> Break:
        return Break(self._live.id, now(), block, cause, plugin, place, lost)


def _count(before: Prefix | Note) -> int:
    return before.count if isinstance(before, Note) else len(before.pieces)


def _all_lost(before: Prefix | Note, sent: Sent) -> int:
    return sent.system.size + _size(sent.messages[: _count(before)])


def _size(pieces: Sequence[PromptPiece]) -> int:
    return sum(piece.size for piece in pieces)


@Remembered
def _definition(spec: ToolSpec) -> str:
    return mark(encode([spec.description, spec.parameters]))


def _marks(messages: Sequence[WithParts]) -> list[int]:
    """Return a number for each message's content: equal within this process while the message is unchanged."""
    return [hash((message.info.id, str(values_of(message)))) for message in messages]


def _characters(messages: Sequence[WithParts]) -> int:
    return sum([len(part.text) for one in messages for part in one.parts if isinstance(part, TextPart)])


def _blamed_stage(
    before: list[tuple[str, list[int]]], stages: list[tuple[str, list[int]]], place: int
) -> str:
    """Return the plugin whose output changed at its beginning although its input did not.

    After a restart nobody knows what it left last time: the first that changes anything up to `place` is named.
    """
    if not stages:
        return before[1][0] if len(before) > 1 else ""
    if not before:
        given = stages[0][1]
        for name, left in stages[1:]:
            if left[: place + 1] != given[: place + 1]:
                return name
        return ""
    for (was, had), (name, left) in zip(before, stages, strict=False):
        if was != name or left[: len(had)] != had:
            return name
    longer = before if len(before) > len(stages) else stages
    return longer[-1][0] if len(before) != len(stages) else ""
