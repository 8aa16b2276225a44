"""The scripted model: a provider whose answers stand in a text file (``docs/reference/scripted.md``).

The session's history decides which answer comes next, so that it survives a restart, a fork and a revert. An answer of
this model in the history took one turn of the script. Not counted are answers that a rule gave (`== when`), and answers
that failed before they asked for a tool: a failed call is made again. Tool calls carry their turn in their id, which
holds also if compaction removed what was before; a compacted session without a tool call since is the one case that
this process's memory decides.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.message import (
    Assistant,
    CacheTokens,
    CompactionPart,
    MessageAbortedError,
    Tokens,
    ToolCompleted,
    ToolError,
    ToolPart,
    WithParts,
    text_of,
)
from instar.provider.convert import ChatConverter, Conversions, conversation, sent, tool_list
from instar.provider.failure import judge
from instar.provider.protocol import (
    Delta,
    Finish,
    Model,
    ModelRequest,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from instar.provider.script import (
    COUNTS,
    CallTool,
    Delay,
    Expect,
    Fail,
    ModelScript,
    Say,
    ScriptError,
    ScriptSection,
    parse,
)
from instar.wire.pattern import late_pattern

_SHIPPED: Final = Path(__file__).parent / "scripts"
_ECHO: Final = ModelScript(
    "the built-in echo script", rules=[ScriptSection(1, [Say("{{user}}")], when=late_pattern(""))]
)
_TITLE_WORDS: Final = 6
_INPUT_TOKENS: Final = 100
_CALL_ID: Final = late_pattern(r"call_([tw])(\d+)(?:_(\d+))?_\d+$")
_TEMPLATE: Final = late_pattern(r"\{\{(user|last|tool|last\.tool\.output|turn|session|tools|match\.\d)\}\}")


class ScriptPosition(msgspec.Struct):
    """A session's position in a script: turns played, how often each rule answered, and the last inputs.

    `user` is the last text of a user message, `tool` the last tool's output, `last` the last input of either kind.
    """

    played: int = 0
    answered: dict[int, int] = {}
    user: str = ""
    tool: str = ""
    last: str = ""

    def matching_rule(self, script: ModelScript) -> int | None:
        """Return the index of the first rule that answers the last input."""
        for index, rule in enumerate(script.rules):
            used = rule.once and self.answered.get(index)
            if not used and rule.when is not None and rule.when.search(self.last):
                return index
        return None


class Scripted:
    """The adapter of protocol ``scripted``. Reads ``INSTAR_SCRIPT`` and ``INSTAR_SCRIPT_RECORD``.

    A script is read again when its file changed.
    """

    def __init__(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        self._environment = environment
        self._scripts: dict[str, tuple[tuple[int, int], ModelScript]] = {}
        self._played: dict[str, int] = {}
        self._failures: dict[tuple[str, int, int], int] = {}
        self._purpose_calls: dict[tuple[str, str], int] = {}
        self._converter = cache(ChatConverter)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Play the next answer. Raises `ProviderError` for a mistake in the script or an unmet `expect:`."""
        self._record(request)
        if request.sent is not None:
            # As Chat Completions would be sent it: the runtime notices a changed prefix with this model too.
            request.sent(sent(request, self._converted(request)))
        await asyncio.sleep(0)
        script = self._script(request.model)
        position = find_position(script, request.messages, request.model)
        answer = self._answer(script, request, position)
        if isinstance(answer, str):
            yield TextDelta(answer)
            yield Finish("stop", _counted(None, len(answer)))
            return
        section, mark = answer
        player = _Player(section, script.source, mark, request, position, self._failures)
        async for delta in player.play():
            yield delta

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _answer(
        self, script: ModelScript, request: ModelRequest, position: ScriptPosition
    ) -> tuple[ScriptSection, str] | str:
        """Return the section that answers and the mark of its call ids, or a text if no section is needed."""
        if request.purpose != "turn":
            return self._purpose_answer(script, request, position)
        rule = position.matching_rule(script)
        if rule is not None:
            return script.rules[rule], f"w{rule + 1}_{position.answered.get(rule, 0) + 1}"
        played = position.played
        if _is_compacted(request.messages):
            played = max(played, self._played.get(request.session_id, 0))
        for number, turn in enumerate(script.turns[played:], played + 1):
            if turn.answers or self._still_fails(request.session_id, turn):
                if request.session_id:
                    self._played[request.session_id] = number
                return turn, f"t{number}"
        count = f"{len(script.turns)} turn{'' if len(script.turns) == 1 else 's'}"
        raise ProviderError(
            f"{request.model.ref}: the script {script.source} has {count} and all of them "
            'have been played; add a `== turn` section for this call, or a rule `== when "…"`'
        )

    def _still_fails(self, session_id: str, turn: ScriptSection) -> bool:
        return any(
            item.times is None or self._failures.get((session_id, turn.line, item.line), 0) < item.times
            for item in turn.items
            if isinstance(item, Fail)
        )

    def _purpose_answer(
        self, script: ModelScript, request: ModelRequest, position: ScriptPosition
    ) -> tuple[ScriptSection, str] | str:
        """Return the answer to a call outside a turn: its n-th section, then its last one again."""
        sections = script.purposes.get(request.purpose)
        if sections:
            key = (request.session_id, request.purpose)
            count = self._purpose_calls.get(key, 0)
            self._purpose_calls[key] = count + 1
            return sections[min(count, len(sections) - 1)], f"{request.purpose}{count + 1}"
        if request.purpose == "title":
            return " ".join(position.user.split()[:_TITLE_WORDS]) or "Untitled"
        if request.purpose == "compaction":
            return f"Summary by {request.model.ref}: the conversation so far was compacted."
        raise ProviderError(f"{request.model.ref}: {script.source} has no `== {request.purpose}` section")

    def _script(self, model: Model) -> ModelScript:
        path = script_path(model.id, model.settings, model.options, self._environment)
        if path is None and model.id == "echo":
            return _ECHO
        if path is None:
            raise ProviderError(
                f"{model.ref}: no script for it; name one with INSTAR_SCRIPT=FILE or "
                f"provider.scripted.models.{model.id}.options.script (shipped: {', '.join(shipped_names())})"
            )
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._scripts.get(str(path))
            if known is None or known[0] != stamp:
                known = self._scripts[str(path)] = (stamp, parse(path.read_text("utf-8"), str(path)))
            return known[1]
        except OSError as error:
            raise ProviderError(f"{model.ref}: cannot read the script {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ProviderError(f"{model.ref}: the script {path} is not UTF-8: {error.reason}") from None
        except ScriptError as error:
            raise ProviderError(f"{model.ref}: {error}") from None

    def _converted(self, request: ModelRequest) -> Conversions[bytes]:
        return self._converter(attachment=request.model.attachment).of_request(request)

    def _record(self, request: ModelRequest) -> None:
        """Append the request, with messages and tools as Chat Completions would be sent them."""
        file = self._environment.get("INSTAR_SCRIPT_RECORD")
        if not file:
            return
        messages = self._converted(request)
        received = {
            "purpose": request.purpose,
            "session": request.session_id,
            "agent": request.agent,
            "model": request.model.ref,
            "system": request.system,
            "messages": msgspec.Raw(conversation([], messages)),
            "tools": msgspec.Raw(tool_list(request.tools)),
            "tool_choice": request.tool_choice,
            "params": {
                "temperature": request.temperature,
                "top_p": request.top_p,
                "max_output_tokens": request.max_output_tokens,
                "options": request.options,
                "headers": request.headers,
            },
        }
        try:
            with Path(file).open("ab") as out:
                out.write(msgspec.json.encode(received) + b"\n")
        except OSError as error:
            raise ProviderError(f"cannot write INSTAR_SCRIPT_RECORD={file}: {error.strerror}") from None


class _Player(msgspec.Struct):
    """Plays a section once. `mark` begins the ids of its tool calls; `failures` counts the failures of all sections."""

    section: ScriptSection
    source: str
    mark: str
    request: ModelRequest
    position: ScriptPosition
    failures: dict[tuple[str, int, int], int]
    match: re.Match[str] | None = None
    calls: int = 0
    characters: int = 0

    async def play(self) -> AsyncGenerator[Delta, None]:
        """Yield the section's deltas with its pauses, then the `Finish`."""
        when = self.section.when
        self.match = when.search(self.position.last) if when else None
        for item in self.section.items:
            deltas: list[Delta] = []
            match item:
                case Delay():
                    await asyncio.sleep(item.seconds)
                case Say():
                    kind = ReasoningDelta if item.reasoning else TextDelta
                    text = _TEMPLATE.sub(self._value, item.text)
                    deltas = [kind(piece) for piece in self._pieces(text)]
                case CallTool():
                    deltas = self._call(item)
                case Expect():
                    self._check(item)
                case Fail():
                    self._fail(item)
            for delta in deltas:
                yield delta
                # Also without a pace others have their turn, as they have between what a network brings.
                await asyncio.sleep(self.section.pace)
        reason = self.section.finish or ("tool-calls" if self.calls else "stop")
        yield Finish(reason, _counted(self.section.usage, self.characters))

    def _call(self, item: CallTool) -> list[Delta]:
        index = self.calls
        self.calls += 1
        text = item.raw
        if text is None:
            text = msgspec.json.encode(self._filled(item.arguments)).decode()
        start = ToolCallStart(index, f"call_{self.mark}_{index + 1}", item.name)
        return [start, *(ToolCallDelta(index, piece) for piece in self._pieces(text))]

    def _pieces(self, text: str) -> list[str]:
        self.characters += len(text)
        size = self.section.chunk or len(text) or 1
        return [text[at : at + size] for at in range(0, len(text), size)]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return _TEMPLATE.sub(self._value, value)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        return value

    def _value(self, found: re.Match[str]) -> str:
        name, match = found[1], self.match
        if name.startswith("match."):
            group = int(name[-1])
            return (match[group] or "") if match and group <= match.re.groups else ""
        values = {
            "user": self.position.user,
            "last": self.position.last,
            "session": self.request.session_id,
            "turn": self.mark,
            "tools": ", ".join(tool.name for tool in self.request.tools),
        }
        return values.get(name, self.position.tool)

    def _check(self, expect: Expect) -> None:
        """Raise `ProviderError` if the model was sent something else than expected."""
        if expect.key == "expect_tool":
            names = [tool.name for tool in self.request.tools]
            if not any(expect.pattern.fullmatch(name) for name in names):
                raise self._unmet(expect, "a tool named", ", ".join(names) or "(no tools)")
            return
        in_system = expect.key == "expect_system"
        seen = "\n\n".join(self.request.system) if in_system else self.position.last
        found = expect.pattern.search(seen)
        if (found is None) is not (expect.key == "expect_not"):
            what = "the system prompt" if in_system else "the last input"
            raise self._unmet(expect, f"{what} {'not ' if found else ''}to match", seen)
        self.match = found or self.match

    def _unmet(self, expect: Expect, what: str, seen: str) -> ProviderError:
        shown = seen if len(seen) <= 2000 else seen[:2000] + "…"
        return ProviderError(
            f"{self.request.model.ref}: {self.source}:{expect.line}: expected {what} "
            f"/{expect.pattern.pattern}/, but it was: {shown}"
        )

    def _fail(self, fail: Fail) -> None:
        """Raise the failure, unless it was played as often as it says."""
        key = (self.request.session_id, self.section.line, fail.line)
        count = self.failures.get(key, 0)
        if fail.times is not None and count >= fail.times:
            return
        self.failures[key] = count + 1
        kind, retryable = judge(fail.status, fail.message)
        if fail.kind is not None:
            kind, retryable = fail.kind, fail.kind == "network" or (fail.kind == "api" and retryable)
        said = f"{fail.status} {fail.message}" if fail.status else fail.message
        raise ProviderError(
            f"{self.request.model.ref}: {said}",
            kind=kind,
            status=fail.status,
            retryable=retryable,
            retry_after=fail.retry_after,
        )


def script_path(
    name: str, settings: Mapping[str, Any], options: Mapping[str, Any], environment: Mapping[str, str]
) -> Path | None:
    """Return the file of the scripted model `name`; None if there is none.

    The first of: the model's option ``script``, the provider's, ``INSTAR_SCRIPT``, a shipped script of
    that name. A folder stands for its file ``NAME.txt``.
    """
    for given in (options.get("script"), settings.get("script"), environment.get("INSTAR_SCRIPT")):
        if given:
            path = Path(str(given)).expanduser()
            return path / f"{name}.txt" if path.is_dir() else path
    shipped = _SHIPPED / f"{name}.txt"
    return shipped if re.fullmatch(r"[\w-]+", name) and shipped.is_file() else None


def shipped_names() -> list[str]:
    """Return the names of the scripts that come with instar, the built-in ``echo`` included."""
    return sorted({"echo", *(path.stem for path in _SHIPPED.glob("*.txt"))})


def find_position(script: ModelScript, messages: list[WithParts], model: Model) -> ScriptPosition:
    """Return a session's position in `script`: a pure function of the script and the session's history."""
    position = ScriptPosition(answered={})
    for message in messages:
        if isinstance(message.info, Assistant):
            if _is_answer(message, message.info, model):
                _count(script, message, position)
            states = [part.state for part in message.parts if isinstance(part, ToolPart)]
            outputs = [
                state.output if isinstance(state, ToolCompleted) else state.error
                for state in states
                if isinstance(state, ToolCompleted | ToolError)
            ]
            if outputs:
                position.tool = outputs[-1]
                position.last = "\n".join(outputs)
        elif text := text_of(message):
            position.user = position.last = text
    return position


def _is_answer(message: WithParts, info: Assistant, model: Model) -> bool:
    if info.summary or info.provider_id != model.provider_id or info.model_id != model.id:
        return False
    if info.error is None or isinstance(info.error, MessageAbortedError):
        return True
    return any(isinstance(part, ToolPart) for part in message.parts)


def _count(script: ModelScript, message: WithParts, position: ScriptPosition) -> None:
    """Count an answer: as its first call's id says, else as the turn or rule that must have given it."""
    call = next((part for part in message.parts if isinstance(part, ToolPart)), None)
    mark = _CALL_ID.match(call.call_id) if call else None
    if mark is not None and mark[1] == "t":
        position.played = int(mark[2])
    elif mark is not None:
        position.answered[int(mark[2]) - 1] = int(mark[3] or 1)
    elif (rule := position.matching_rule(script)) is not None:
        position.answered[rule] = position.answered.get(rule, 0) + 1
    else:
        position.played += 1


def _is_compacted(messages: list[WithParts]) -> bool:
    """Return whether a part of the history was replaced by its summary."""
    return any(
        (isinstance(message.info, Assistant) and message.info.summary is True)
        or any(isinstance(part, CompactionPart) for part in message.parts)
        for message in messages
    )


def _counted(usage: Mapping[str, int] | None, characters: int) -> Tokens:
    """Return the counts that the script gives, else 100 in and a token for four characters out."""
    counts = usage if usage is not None else {"input": _INPUT_TOKENS, "output": max(1, characters // 4)}
    given, made, thought, read, write = (counts.get(name, 0) for name in COUNTS)
    cache = CacheTokens(read=read, write=write)
    return Tokens(total=sum(counts.values()), input=given, output=made, reasoning=thought, cache=cache)
