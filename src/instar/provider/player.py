"""Plays one section of a script: its words, calls, pauses, failures and expectations."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from instar.message import CacheTokens, Tokens
from instar.provider.failure import judge
from instar.provider.place import Sight
from instar.provider.protocol import (
    Delta,
    Finish,
    ProviderError,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from instar.provider.script import Ask, Expect, Fail, Pause, Say, Section

_TEMPLATE: Final = re.compile(r"\{\{(user|last|tool|last\.tool\.output|turn|session|tools|match\.\d)\}\}")
_INPUT_TOKENS: Final = 100


class Cue(msgspec.Struct, frozen=True):
    """What is played for which call: the section, the script's file, the mark of its tool call ids."""

    section: Section
    source: str
    mark: str
    request: Request
    sight: Sight


class Player:
    """One playing of a section; `due` says whether a failure is still to come, and counts it."""

    def __init__(self, cue: Cue, due: Callable[[Fail], bool]) -> None:
        self._due = due
        self._source = cue.source
        self._request = cue.request
        self._sight = cue.sight
        self._section = cue.section
        self._mark = cue.mark
        when = cue.section.when
        self._match: re.Match[str] | None = when.search(cue.sight.last) if when else None
        self._calls = 0
        self._characters = 0

    async def play(self) -> AsyncIterator[Delta]:
        """Yield the section's deltas with its pauses, then the `Finish`."""
        for item in self._section.items:
            if isinstance(item, Pause):
                await asyncio.sleep(item.seconds)
                continue
            for delta in self._deltas(item):
                yield delta
                if self._section.pace:
                    await asyncio.sleep(self._section.pace)
        reason = self._section.finish or ("tool-calls" if self._calls else "stop")
        yield Finish(reason, counted(self._section.usage, self._characters))

    def _deltas(self, item: Say | Ask | Fail | Expect) -> Iterator[Delta]:
        if isinstance(item, Say):
            kind = ReasoningDelta if item.reasoning else TextDelta
            yield from (kind(piece) for piece in self._pieces(self._filled(item.text)))
        elif isinstance(item, Ask):
            yield from self._call(item)
        elif isinstance(item, Expect):
            self._check(item)
        elif self._due(item):
            raise self._failure(item)

    def _call(self, item: Ask) -> Iterator[Delta]:
        index = self._calls
        self._calls += 1
        yield ToolCallStart(index, f"call_{self._mark}_{index + 1}", item.name)
        raw = (
            item.raw
            if item.raw is not None
            else msgspec.json.encode(self._filled_values(item.arguments)).decode()
        )
        yield from (ToolCallDelta(index, piece) for piece in self._pieces(raw))

    def _pieces(self, text: str) -> list[str]:
        self._characters += len(text)
        size = self._section.chunk or len(text) or 1
        return [text[at : at + size] for at in range(0, len(text), size)]

    def _filled(self, text: str) -> str:
        return _TEMPLATE.sub(lambda found: self._value(found[1]), text)

    def _filled_values(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._filled(value)
        if isinstance(value, list):
            return [self._filled_values(item) for item in value]
        if isinstance(value, dict):
            return {key: self._filled_values(item) for key, item in value.items()}
        return value

    def _value(self, name: str) -> str:
        sight, request = self._sight, self._request
        if name.startswith("match."):
            group = int(name[-1])
            known = self._match is not None and group <= self._match.re.groups
            return (self._match[group] or "") if self._match and known else ""
        values = {"user": sight.user, "last": sight.last, "session": request.session_id, "turn": self._mark}
        values["tools"] = ", ".join(tool.name for tool in request.tools)
        return values.get(name, sight.tool)

    def _check(self, expect: Expect) -> None:
        """Hold an expectation against what the model was sent."""
        if expect.of == "expect_tool":
            names = [tool.name for tool in self._request.tools]
            if not any(expect.pattern.fullmatch(name) for name in names):
                raise self._unmet(expect, "a tool named", ", ".join(names) or "(no tools)")
            return
        seen = "\n\n".join(self._request.system) if expect.of == "expect_system" else self._sight.last
        found = expect.pattern.search(seen)
        if (found is None) is not (expect.of == "expect_not"):
            what = "the system prompt to match" if expect.of == "expect_system" else "the last input to match"
            raise self._unmet(expect, what.replace("to match", "not to match") if found else what, seen)
        self._match = found or self._match

    def _unmet(self, expect: Expect, what: str, seen: str) -> ProviderError:
        shown = seen if len(seen) <= 2000 else seen[:2000] + "…"
        return ProviderError(
            f"{self._request.model.ref}: {self._source}:{expect.line}: expected {what} "
            f"/{expect.pattern.pattern}/, but it was: {shown}"
        )

    def _failure(self, fail: Fail) -> ProviderError:
        kind, retryable = judge(fail.status, fail.message)
        if fail.kind is not None:
            kind, retryable = fail.kind, fail.kind == "network" or (fail.kind == "api" and retryable)
        said = f"{fail.status} {fail.message}" if fail.status else fail.message
        return ProviderError(
            f"{self._request.model.ref}: {said}",
            kind=kind,
            status=fail.status,
            retryable=retryable,
            retry_after=fail.retry_after,
        )


def counted(usage: Mapping[str, int] | None, characters: int) -> Tokens:
    """The counts that the script gives, else 100 in and a token for four characters out."""
    counts = usage if usage is not None else {"input": _INPUT_TOKENS, "output": max(1, characters // 4)}
    cache = CacheTokens(read=counts.get("cache_read", 0), write=counts.get("cache_write", 0))
    return Tokens(
        total=sum(counts.values()),
        input=counts.get("input", 0),
        output=counts.get("output", 0),
        reasoning=counts.get("reasoning", 0),
        cache=cache,
    )
