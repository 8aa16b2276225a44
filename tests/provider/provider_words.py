"""The words that tests of providers make requests of, and the loopback server's handle."""

import itertools
import json
from pathlib import Path

from instar.message import (
    AnswerTime,
    Assistant,
    Created,
    MessagePath,
    ModelRef,
    Span,
    TextPart,
    Tokens,
    ToolCompleted,
    ToolPart,
    ToolSpan,
    User,
    WithParts,
)
from instar.provider.protocol import Model, ModelCost, ModelLimit, ModelRequest
from instar.wire.secret import Secret

KEY = "sk-live-0123456789abcdef"
_numbers = itertools.count(1)


class Server:
    """The running server: give it plans, ask what it got."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/v1"

    def plan(self, *pieces: object, **facts: object) -> Model:
        """Return a model whose next calls are answered with `pieces`."""
        name = f"plan-{next(_numbers)}"
        settings = facts.pop("settings", {})
        (self.folder / f"{name}.json").write_text(json.dumps({"pieces": pieces, **facts}))
        return make_model(id=name, url=self.url, api_key=Secret(KEY), settings=settings)

    def requests(self, model: Model) -> list[dict]:
        """Return what was asked of a model, in order."""
        lines = (self.folder / "requests.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["plan"] == model.id]


def make_model(**facts) -> Model:
    return Model(
        **{
            "provider_id": "test",
            "id": "m",
            "name": "m",
            "protocol": "openai",
            "url": "http://127.0.0.1:9/v1",
            "api_key": None,
            "headers": {},
            "limit": ModelLimit(),
            "cost": ModelCost(),
            **facts,
        }
    )


def make_request(model: Model, *messages: WithParts, **facts) -> ModelRequest:
    facts.setdefault("system", ["You are a test."])
    return ModelRequest(model=model, messages=list(messages), **facts)


def user(*parts: object, message_id: str = "") -> WithParts:
    """A person's message of texts and parts."""
    message_id = message_id or f"msg_{next(_numbers):05}"
    info = User(
        id=message_id,
        session_id="ses_1",
        time=Created(created=1),
        agent="build",
        model=ModelRef(provider_id="test", model_id="m"),
    )
    return WithParts(info=info, parts=[place(part, message_id, index) for index, part in enumerate(parts)])


def assistant(*parts: object, message_id: str = "", model: str = "test/m", **facts) -> WithParts:
    """An answer of texts and parts."""
    message_id = message_id or f"msg_{next(_numbers):05}"
    provider_id, _, model_id = model.partition("/")
    info = Assistant(
        id=message_id,
        session_id="ses_1",
        time=AnswerTime(created=1, completed=2),
        parent_id="msg_0",
        model_id=model_id,
        provider_id=provider_id,
        mode="build",
        agent="build",
        path=MessagePath(cwd="/", root="/"),
        cost=0,
        tokens=Tokens.zero(),
        finish="stop",
        **facts,
    )
    return WithParts(info=info, parts=[place(part, message_id, index) for index, part in enumerate(parts)])


def place(part, message_id: str, index: int):
    """Give a part its ids; a string becomes a text part."""
    if isinstance(part, str):
        part = TextPart(id="", session_id="", message_id="", text=part)
    part.id, part.session_id, part.message_id = f"prt_{message_id}_{index}", "ses_1", message_id
    return part


def loose(kind, **fields):
    """A part without ids; `user` and `assistant` give it some."""
    return kind(id="", session_id="", message_id="", **fields)


def call(
    output: str = "done", *, call_id: str = "call_1", tool: str = "bash", state=None, **args
) -> ToolPart:
    done = ToolCompleted(input=args, output=output, title="", metadata={}, time=ToolSpan(start=1, end=2))
    return loose(ToolPart, call_id=call_id, tool=tool, state=state or done)


SPAN = Span(start=1, end=2)
