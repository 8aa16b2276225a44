"""The scripted model: a provider whose answers stand in a text file (``docs/scripted.md``).

Which answer comes next is read off the session's own history, so that it survives a restart, a fork
and a revert. An answer of this model in the history took one turn of the script. Not counted are
answers that a rule gave (`== when`), and answers that failed before they asked for a tool: a failed
call is made again. Tool calls carry their turn in their id, which holds also where compaction hid what
was before; a compacted session without a tool call since is the one case that this process's memory
decides.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.provider.convert import Converter, sent, tool_list
from instar.provider.place import Place, Sight, applies, find_place, is_compacted
from instar.provider.player import Cue, Player, counted
from instar.provider.protocol import Delta, Finish, Model, ProviderError, Request, TextDelta
from instar.provider.script import Fail, Script, ScriptError, Section
from instar.provider.script_text import parse

SHIPPED: Final = Path(__file__).parent / "scripts"
ECHO: Final = '== when ""\ntext: {{user}}\n'
_TITLE_WORDS: Final = 6


class Scripted:
    """The adapter of protocol ``scripted``. Reads ``INSTAR_SCRIPT`` and ``INSTAR_SCRIPT_RECORD``.

    A script is read again when its file changed.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment or {}
        self._read: dict[str, tuple[tuple[int, int], Script]] = {}
        self._played: dict[str, int] = {}
        self._failed: dict[tuple[str, int, int], int] = {}
        self._asides: dict[tuple[str, str], int] = {}
        self._converter = Converter()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Play the next answer. Raises `ProviderError` for a mistake in the script or an unmet `expect:`."""
        self._record(request)
        if request.sent is not None:
            # What Chat Completions would be sent: the runtime notices a broken prefix with this model too.
            request.sent(sent(request, self._converter.kept(request.messages)))
        await asyncio.sleep(0)
        script = self._script(request.model)
        place = find_place(script, request.messages, request.model)
        chosen = self._choose(script, request, place)
        if isinstance(chosen, str):
            yield TextDelta(chosen)
            yield Finish("stop", counted(None, len(chosen)))
            return
        section, mark = chosen
        cue = Cue(section, script.source, mark, request, place.sight)
        async for delta in Player(cue, lambda fail: self._due(request.session_id, section, fail)).play():
            yield delta

    async def close(self) -> None:
        """Nothing is held."""

    def _due(self, session: str, section: Section, fail: Fail) -> bool:
        """Whether this failure is still to come, and count it."""
        key = (session, section.line, fail.line)
        count = self._failed.get(key, 0)
        if fail.times is not None and count >= fail.times:
            return False
        self._failed[key] = count + 1
        return True

    def _choose(self, script: Script, request: Request, place: Place) -> tuple[Section, str] | str:
        """Return the section that answers and the mark of its call ids, or a text where none is needed."""
        if request.purpose != "turn":
            return self._aside(script, request, place.sight)
        for index, rule in enumerate(script.rules):
            if applies(rule, index, place):
                fired = place.fired.get(index, 0) + 1
                return rule, f"w{index + 1}_{fired}"
        if is_compacted(request.messages):
            place.played = max(place.played, self._played.get(request.session_id, 0))
        while place.played < len(script.turns):
            turn = script.turns[place.played]
            place.played += 1
            if turn.answers or self._still_fails(request.session_id, turn):
                if request.session_id:
                    self._played[request.session_id] = place.played
                return turn, f"t{place.played}"
        count = f"{len(script.turns)} turn{'' if len(script.turns) == 1 else 's'}"
        raise ProviderError(
            f"{request.model.ref}: the script {script.source} has {count} and all of them "
            'have been played; add a `== turn` section for this call, or a rule `== when "…"`'
        )

    def _still_fails(self, session: str, turn: Section) -> bool:
        fails = [item for item in turn.items if isinstance(item, Fail)]
        counts = [self._failed.get((session, turn.line, fail.line), 0) for fail in fails]
        return any(
            fail.times is None or count < fail.times for fail, count in zip(fails, counts, strict=True)
        )

    def _aside(self, script: Script, request: Request, sight: Sight) -> tuple[Section, str] | str:
        """A title, a summary or a single call: its n-th section, then its last one again."""
        sections = script.purposes.get(request.purpose)
        if sections:
            key = (request.session_id, request.purpose)
            count = self._asides.get(key, 0)
            self._asides[key] = count + 1
            return sections[min(count, len(sections) - 1)], f"{request.purpose}{count + 1}"
        if request.purpose == "title":
            return " ".join(sight.user.split()[:_TITLE_WORDS]) or "Untitled"
        if request.purpose == "compaction":
            return f"Summary by {request.model.ref}: the conversation so far was compacted."
        raise ProviderError(f"{request.model.ref}: {script.source} has no `== {request.purpose}` section")

    def _script(self, model: Model) -> Script:
        path = script_path(model.id, model.settings, model.options, self._environment)
        if path is None:
            return parse(ECHO, "the built-in echo script") if model.id == "echo" else _missing(model)
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._read.get(str(path))
            if known is None or known[0] != stamp:
                known = (stamp, parse(path.read_text("utf-8"), str(path)))
                self._read[str(path)] = known
            return known[1]
        except OSError as error:
            raise ProviderError(f"{model.ref}: cannot read the script {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ProviderError(f"{model.ref}: the script {path} is not UTF-8: {error.reason}") from None
        except ScriptError as error:
            raise ProviderError(f"{model.ref}: {error}") from None

    def _record(self, request: Request) -> None:
        file = self._environment.get("INSTAR_SCRIPT_RECORD")
        if not file:
            return
        try:
            with Path(file).open("ab") as out:
                out.write(msgspec.json.encode(received(request)) + b"\n")
        except OSError as error:
            raise ProviderError(f"cannot write INSTAR_SCRIPT_RECORD={file}: {error.strerror}") from None


def script_path(
    name: str, settings: Mapping[str, Any], options: Mapping[str, Any], environment: Mapping[str, str]
) -> Path | None:
    """Return the file of the scripted model `name`; None when there is none.

    The first of: the model's option ``script``, the provider's, ``INSTAR_SCRIPT``, a shipped script of
    that name. A folder stands for its file ``NAME.txt``.
    """
    for given in (options.get("script"), settings.get("script"), environment.get("INSTAR_SCRIPT")):
        if given:
            path = Path(str(given)).expanduser()
            return path / f"{name}.txt" if path.is_dir() else path
    shipped = SHIPPED / f"{name}.txt"
    return shipped if re.fullmatch(r"[\w-]+", name) and shipped.is_file() else None


def shipped_names() -> list[str]:
    """Return the names of the scripts that come with instar, the built-in ``echo`` included."""
    return sorted({"echo", *(path.stem for path in SHIPPED.glob("*.txt"))})


def received(request: Request) -> dict[str, Any]:
    """Return a request as the record file shows it: messages and tools as a provider would be sent them."""
    converter = Converter(attachment=request.model.attachment)
    return {
        "purpose": request.purpose,
        "session": request.session_id,
        "agent": request.agent,
        "model": request.model.ref,
        "system": request.system,
        "messages": converter.plain([], request.messages),
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


def _missing(model: Model) -> Script:
    raise ProviderError(
        f"{model.ref}: no script for it; name one with INSTAR_SCRIPT=FILE or "
        f"provider.scripted.models.{model.id}.options.script (shipped: {', '.join(shipped_names())})"
    )
