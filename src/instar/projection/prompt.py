"""Prompts between the two forms: text with attachments, and parts."""

import mimetypes
from collections.abc import Sequence

from instar.api.session_message import Prompt, PromptAgentAttachment, PromptFileAttachment, PromptSource
from instar.api.session_v2 import PromptInput
from instar.message import AgentPart, FilePart, Part, SubtaskPart, TextPart
from instar.wire import Plain


def prompt_of(parts: Sequence[Part]) -> Prompt:
    """Return what a person said in a user message: what the runtime added and what is not sent is left out.

    A task for a sub-agent is told as its text.
    """
    said = [
        part.text for part in parts if isinstance(part, TextPart) and not part.synthetic and not part.ignored
    ]
    said += [part.prompt for part in parts if isinstance(part, SubtaskPart)]
    return Prompt(
        text="\n".join(said),
        files=[attachment(part) for part in parts if isinstance(part, FilePart)] or None,
        agents=[
            PromptAgentAttachment(name=part.name, source=_source(part.source))
            for part in parts
            if isinstance(part, AgentPart)
        ]
        or None,
    )


def attachment(part: FilePart) -> PromptFileAttachment:
    """Return an attached file in the newer form."""
    text = (part.source or {}).get("text")
    return PromptFileAttachment(
        uri=part.url,
        mime=part.mime,
        name=part.filename,
        source=_source(text if isinstance(text, dict) else None),
    )


def mime_of(uri: str, name: str | None) -> str:
    """Return a file's type by its URL or name: text where neither says it."""
    if uri.startswith("data:"):
        return uri[5:].partition(",")[0].partition(";")[0] or "text/plain"
    return mimetypes.guess_type(uri)[0] or mimetypes.guess_type(name or "")[0] or "text/plain"


def prompt_body(given: PromptInput) -> list[Plain]:
    """Return the parts of a prompt that came in the newer form."""
    files, agents = given.files or [], given.agents or []
    parts: list[Plain] = []
    if given.text or not (files or agents):
        parts.append({"type": "text", "text": given.text})
    for file in files:
        name = {} if file.name is None else {"filename": file.name}
        parts.append({"type": "file", "mime": mime_of(file.uri, file.name), "url": file.uri, **name})
    parts += [{"type": "agent", "name": agent.name} for agent in agents]
    return parts


def given_prompt(given: PromptInput) -> Prompt:
    """Return a prompt as it came, with the types of its files."""
    files = [
        PromptFileAttachment(
            uri=one.uri,
            mime=mime_of(one.uri, one.name),
            name=one.name,
            description=one.description,
            source=one.source,
        )
        for one in given.files or []
    ]
    return Prompt(text=given.text, files=files or None, agents=given.agents or None)


def _source(given: Plain | None) -> PromptSource | None:
    if given is None:
        return None
    start, end, text = given.get("start"), given.get("end"), given.get("value")
    if not isinstance(start, int | float) or not isinstance(end, int | float) or not isinstance(text, str):
        return None
    return PromptSource(start=start, end=end, text=text)
