from typing import Any

from record import record

from instar.plugin import PromptBody, SessionBody


async def prompts(door: Any, options: Any) -> Any:
    done = []

    async def event(event: Any) -> None:
        if event.type != "session.idle" or done:
            return
        done.append(event)
        session = door.client.session
        body = PromptBody(no_reply=True, parts=[{"type": "text", "text": "Remember the milk."}])
        answer = await session.prompt(event.properties.session_id, body)
        record(options, role=answer.info.role, text=answer.parts[0].text)
        made = await session.create(SessionBody(title="made by a plugin"))
        record(options, title=made.title)

    return {"event": event}
