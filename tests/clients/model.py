"""A Chat Completions server on loopback whose answers hang on the words of the person's last prompt.

Both servers, the real opencode and instar, reach it as the provider ``fake`` through the same settings.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence

from tests.completions import SUMMARY, TITLE, Completions, Plain, deltas, framed

PATIENCE = 60.0
"""Seconds after which an answer that nobody let go on goes on."""


class Model:
    """Answers a prompt that holds one of the keys of `answers` with that key's answers, one a step, the last again.

    An answer has ``text`` (a list: one delta each), ``tools`` (names with their arguments) and ``holds``: after
    the text's first delta it waits until `let_go` is called. `requests` are the bodies that came, in order.
    """

    def __init__(self, answers: Mapping[str, Sequence[Plain]]) -> None:
        self.requests: list[Plain] = []
        self._answers = answers
        self._let_go = threading.Event()
        self._server = Completions(self._chunks)

    def settings(self) -> Plain:
        """The settings that name this server's two models; commands of the shell are asked for."""
        models = {
            name: {"name": f"Model {name.upper()}", "limit": {"context": 100_000, "output": 4_000}}
            for name in ("m", "n")
        }
        fake = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": f"{self._server.url}/v1", "apiKey": "none"},
            "models": models,
        }
        return {
            "provider": {"fake": fake},
            "model": "fake/m",
            "small_model": "fake/m",
            "permission": {"bash": "ask"},
        }

    def hold(self) -> None:
        """From now on an answer that ``holds`` waits."""
        self._let_go.clear()

    def let_go(self) -> None:
        """Let the answers go on that wait."""
        self._let_go.set()

    def _chunks(self, path: str, headers: Mapping[str, str], body: Plain) -> Iterator[bytes]:
        self.requests.append(body)
        answer, number = self._choose(body)
        return framed(body["model"], self._held(answer, number))

    def _held(self, answer: Plain, number: int) -> Iterator[Plain]:
        for index, delta in enumerate(deltas(answer.get("text", ()), answer.get("tools", ()), number)):
            if index == 1 and answer.get("holds"):
                self._let_go.wait(PATIENCE)
            yield delta

    def close(self) -> None:
        """Let go of the port."""
        self.let_go()
        self._server.close()

    def _choose(self, body: Plain) -> tuple[Plain, int]:
        if not body.get("tools"):
            summary = "<conversation>" in json.dumps(body["messages"])
            return {"text": [SUMMARY if summary else TITLE]}, 0
        steps = 0
        for message in reversed(body["messages"]):
            said = json.dumps(message["content"], ensure_ascii=False)
            for key in self._answers if message["role"] == "user" else ():
                if key in said:
                    answers = self._answers[key]
                    return answers[min(steps, len(answers) - 1)], steps
            steps += message["role"] == "assistant"
        return {"text": ["I have no answer to that."]}, 0
