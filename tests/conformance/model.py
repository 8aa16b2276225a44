"""A Chat Completions server on loopback that plays every scenario's model, each under a path of its own."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.completions import SUMMARY, TITLE, Completions, Plain, deltas, framed

_LEAN = {"snapshot": False, "lsp": False, "formatter": False, "share": "disabled"}
"""What costs the programs time and has nothing to do with plugins."""


class Request:
    """A request that came: its `body`, its `headers` in small letters, and the `purpose` of the call."""

    def __init__(self, headers: Mapping[str, str], body: Plain) -> None:
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body
        # Only a turn offers tools.
        summary = "title" if "title" in json.dumps(body["messages"][0]).lower() else "summary"
        self.purpose = "turn" if body.get("tools") else summary


class Model:
    """Gives the turns of a scenario its `answers` in order, the last one again and again.

    An answer has ``text``, ``tools`` (names with their arguments) and ``tokens`` (those of the input).
    """

    def __init__(self, answers: Mapping[str, Sequence[Plain]]) -> None:
        self.requests: dict[str, list[Request]] = defaultdict(list)
        self._answers = answers
        self._server = Completions(self._chunks)

    def settings(self, name: str) -> Plain:
        """The settings of the scenario `name`: this server's two models, and no question asked."""
        models = {
            one: {"name": one, "tool_call": True, "limit": {"context": 20_000, "output": 4_000}}
            for one in "mn"
        }
        options = {"baseURL": f"{self._server.url}/{name}/v1", "apiKey": "none"}
        fake = {"npm": "@ai-sdk/openai-compatible", "name": "Fake", "options": options, "models": models}
        return {"provider": {"fake": fake}, "model": "fake/m", "permission": {"*": "allow"}, **_LEAN}

    def close(self) -> None:
        """Let go of the port."""
        self._server.close()

    def _chunks(self, path: str, headers: Mapping[str, str], body: Plain) -> Iterator[bytes]:
        name, request = path.split("/")[1], Request(headers, body)
        turns = [one for one in self.requests[name] if one.purpose == "turn"]
        self.requests[name].append(request)
        answers = self._answers[name]
        own = {"title": {"text": TITLE}, "summary": {"text": SUMMARY}}
        answer = own.get(request.purpose) or answers[min(len(turns), len(answers) - 1)]
        texts = [answer["text"]] if "text" in answer else []
        found = deltas(texts, answer.get("tools", ()), len(turns), answer.get("tokens", 100))
        return framed(body["model"], found)
