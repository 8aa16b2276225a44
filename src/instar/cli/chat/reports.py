"""What ``/context``, ``/doctor`` and ``/export`` tell."""

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
from rich.text import Text

from instar import wire
from instar.api.stats import ContextPart, ContextReport, DoctorReport
from instar.cli.chat.conversation import Conversation
from instar.cli.text import counted, one_line
from instar.cli.transcript import file_name, markdown_of
from instar.client import Invalid
from instar.session.import_export import archive
from instar.wire.document import atomic_write

_KINDS: Final = {
    "system": ("system prompt", "cyan"),
    "tools": ("tools", "yellow"),
    "messages": ("messages", "green"),
}
_BAR: Final = 50
_NAME: Final = 30
_SMALL_BAR: Final = 8
_STATES: Final = {"problem": ("✗", "red"), "note": ("!", "yellow")}


def context_lines(report: ContextReport) -> Iterator[Text]:
    """Yield a bar of what fills the window, and below it each part with its tokens and characters."""
    window = f", of a window of {report.window:,}" if report.window else ""
    when = "it is summarised at" if report.automatic else "there is room for"
    yield Text(
        f"{report.model}: {report.used:,} tokens; {when} {report.room:,}{window}; {report.left:,} left",
        "bold",
    )
    most = max(report.room, report.used, 1)
    kinds = [(kind, list(parts)) for kind, parts in groupby(report.parts, lambda one: one.kind)]
    bar = Text()
    for kind, parts in kinds:
        bar.append("█" * round(_BAR * sum(one.tokens for one in parts) / most), _KINDS[kind][1])
    yield bar.append("░" * max(0, _BAR - len(bar)), "dim")
    yield Text(f"{'':<{_NAME}} {'tokens':>8} {'characters':>10}", "dim")
    largest = max((one.tokens for one in report.parts), default=1)
    for kind, parts in kinds:
        name, color = _KINDS[kind]
        tokens, characters = sum(one.tokens for one in parts), sum(one.characters for one in parts)
        yield Text(f"{name:<{_NAME}} {tokens:>8,} {characters:>10,}", f"bold {color}")
        yield from (_part(one, largest, color) for one in parts)
    said = (
        "The provider counted the whole; the parts have their shares by their characters."
        if report.counted
        else "No provider has counted this yet: all is estimated by the characters."
    )
    yield Text(said, "dim")


def _part(part: ContextPart, largest: int, color: str) -> Text:
    name = one_line(part.name)
    # The end of a path says most.
    room = _NAME - 2 - (len(f" ×{part.count}") if part.count > 1 else 0)
    name = name if len(name) <= room else f"…{name[1 - room :]}"
    name += f" ×{part.count}" if part.count > 1 else ""
    line = Text(f"  {name:<{_NAME - 2}} {part.tokens:>8,} {part.characters:>10,} ")
    return line.append("▇" * round(_SMALL_BAR * part.tokens / max(largest, 1)), color)


def doctor_lines(report: DoctorReport) -> Iterator[Text]:
    """Yield what is not well and what to do about it, and how much is well."""
    for line in report.lines:
        if line.state != "ok":
            mark, color = _STATES[line.state]
            yield Text.assemble((f"{mark} {line.name}: ", f"bold {color}"), one_line(line.text))
            if line.todo:
                yield Text(f"    {one_line(line.todo)}")
    well = [line.name for line in report.lines if line.state == "ok"]
    yield Text(f"{counted(len(well), 'thing is', 'things are')} well: {', '.join(well)}", "dim")
    yield Text(f"next: {one_line(report.next)}", "dim")


async def export(talk: Conversation, named: str) -> Path:
    """Write the session into a new file and return its path: ``.json`` as ``instar export``, else as Markdown."""
    client, session_id = talk.client, talk.session.id
    session = await client.session.get(session_id)
    path = _new_file(one_line(named) or file_name(session))
    messages = await client.session.messages(session_id)
    if path.suffix == ".json":
        plain = archive(session, messages, await client.session.todo(session_id))
        data = msgspec.json.format(wire.encode(plain)) + b"\n"
    else:
        data = markdown_of(session, messages).encode()
    try:
        atomic_write(path, data, 0o600)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from error
    return path


def _new_file(named: str) -> Path:
    path = Path(os.path.expanduser(named)).absolute()  # noqa: PTH111 - Path's raises for an unknown user
    if path.exists():
        raise Invalid(f"{path} exists; name a new file: /export FILE")
    if not path.parent.is_dir():
        raise Invalid(f"there is no folder {path.parent}")
    return path
