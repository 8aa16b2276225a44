"""Published npm plugins of opencode do their work in instar, by node: published-plugins.md in
docs/reference/compatibility lists what each needs.

Each is of another kind, in one server; the versions are pinned. Nothing but npm's registry is on the network.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.clients.model import Model
from tests.clients.programs import Instar
from tests.clients.published import PROGRAMS, Vendors
from tests.waiting import wait_until

Plain = dict[str, Any]

PLUGINS = [
    "opencode-vibeguard@0.1.0",
    "opencode-anthropic-auth@0.0.13",
    "opencode-prompt-recorder@1.9.9",
    "opencode-wakatime@1.3.9",
    "opencode-lmstudio@0.3.0",
    "opencode-beads@0.3.2",
    "@sureshsankaran/opencode-destructive-check@1.0.5",
]
INSTALLING = 300.0
"""Seconds that npm may take for all of them: 13 here, with what it fetched before."""
SECRET = "hunter2-of-nobody"
HIDING = {"enabled": True, "patterns": {"keywords": [{"value": SECRET, "category": "API_KEY"}]}}
LOGIN = {"anthropic": {"type": "oauth", "access": "kept-token", "refresh": "r", "expires": 10**14}}

ANSWERS: dict[str, list[Plain]] = {
    "My key is": [{"text": ["I keep it."]}],
    "How is it checked?": [{"tools": [("destructive-check-status", {})]}, {"text": ["So."]}],
    "Clean up.": [
        {"tools": [("bash", {"command": "git reset --hard", "description": "cleans"})]},
        {"text": ["Then I leave it."]},
    ],
    "Write a file.": [
        # opencode-wakatime counts each call id once, and this model numbers the calls of each turn anew: a third
        # one has no other turn.
        {
            "tools": [
                ("read", {"filePath": "notes.txt"}),
                ("read", {"filePath": "src/app.py"}),
                ("write", {"filePath": "new.txt", "content": "new\n"}),
            ]
        },
        {"text": ["Done."]},
    ],
}


class Published(Instar):
    """`instar serve` with the plugins, and what they look for in a home and a project."""

    def _furnish(self, settings: Mapping[str, Any]) -> None:
        files = {
            self.project / "vibeguard.config.json": json.dumps(HIDING),
            self.home / "data" / "instar" / "auth.json": json.dumps(LOGIN),
            self.home / ".wakatime.cfg": "[settings]\napi_key = waka_00000000-0000-4000-8000-000000000000\n",
            **{self.folder / "bin" / name: text for name, text in PROGRAMS.items()},
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o700)
        self.environment["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        # The registry and the cache are those of whoever runs the tests.
        mine = {"npm_config_userconfig": Path.home() / ".npmrc", "npm_config_cache": Path.home() / ".npm"}
        self.environment |= {name: str(path) for name, path in mine.items()}
        kept = ("npm_config_", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith(kept)}
        super()._furnish(settings)

    def turn(self, text: str, session: str = "", model: str = "fake/m") -> tuple[str, list[Plain]]:
        """Run a turn to its end; returns its session and the session's parts."""
        session = session or str(self.http.post("/session", json={}).json()["id"])
        provider, _, name = model.partition("/")
        body = {"parts": [{"type": "text", "text": text}], "model": {"providerID": provider, "modelID": name}}
        assert self.http.post(f"/session/{session}/message", json=body).status_code == 200
        return session, self.parts(session)

    def parts(self, session: str) -> list[Plain]:
        """The parts of a session's messages."""
        found = self.http.get(f"/session/{session}/message").json()
        return [part for message in found for part in message["parts"]]


@pytest.fixture(scope="module")
def vendors() -> Iterator[Vendors]:
    made = Vendors()
    yield made
    made.close()


@pytest.fixture(scope="module")
def published(
    model: Model, vendors: Vendors, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Published]:
    own = model.settings()
    studio = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": vendors.url}, "models": {}}
    own["provider"] |= {"anthropic": {"options": {"baseURL": vendors.url}}, "lmstudio": studio}
    settings = {**own, "plugin": PLUGINS, "permission": {"bash": "allow", "edit": "allow"}}
    started = Published(tmp_path_factory.mktemp("published"), settings)
    # The first answer waits for npm.
    assert started.http.get("/config", timeout=INSTALLING).status_code == 200
    yield started
    started.close()
    shutil.rmtree(started.home / "cache")


def calls(parts: list[Plain]) -> list[Plain]:
    """The states of the tool calls among a session's parts."""
    return [part["state"] for part in parts if part["type"] == "tool"]


def turns(model: Model, words: str) -> list[str]:
    """What a model was sent for turns in which these words stood."""
    found = [json.dumps(body["messages"]) for body in model.requests if body.get("tools")]
    return [text for text in found if words in text]


def test_all_of_them_are_installed_and_load(published: Published) -> None:
    assert "is skipped" not in published.errors
    assert "failed to load" not in published.errors


def test_messages_reach_the_model_without_a_secret_and_tools_get_it_back(
    published: Published, model: Model
) -> None:
    session, _ = published.turn(f"My key is {SECRET}.")
    (sent,) = turns(model, "My key is")
    assert SECRET not in sent
    mark = re.findall(r"__VG_API_KEY_\w+?__", sent)[-1]
    command = {"command": f"printf %s {mark} > got.txt", "description": "writes"}
    ANSWERS["Write it down."] = [{"tools": [("bash", command)]}, {"text": [f"It is {mark}."]}]
    _, parts = published.turn("Write it down.", session)
    assert (published.project / "got.txt").read_text() == SECRET
    assert [part["text"] for part in parts if part["type"] == "text"][-1] == f"It is {SECRET}."
    assert not any(SECRET in text for text in turns(model, "Write it down."))


def test_an_event_writes_prompts_and_answers_to_files(published: Published) -> None:
    published.turn("My key is nobody's business.")
    kept = published.project / ".prompts"

    def written(words: str) -> bool:
        return any(words in path.read_text() for path in kept.rglob("*.txt"))

    # Each by itself, in whichever order: the plugin does not wait for one before it begins the other.
    wait_until(lambda: written("I keep it."))
    wait_until(lambda: written("nobody's business"))


def test_a_tool_answers_the_model(published: Published, model: Model) -> None:
    _, parts = published.turn("How is it checked?")
    (state,) = calls(parts)
    assert json.loads(state["output"])["enabled"] is True
    assert "dangerousPaths" in turns(model, "How is it checked?")[-1]


def test_a_gate_asks_before_a_command_that_is_allowed_otherwise(published: Published) -> None:
    session: str = published.http.post("/session", json={}).json()["id"]
    body = {"parts": [{"type": "text", "text": "Clean up."}]}
    assert published.http.post(f"/session/{session}/prompt_async", json=body).status_code == 204
    asked: list[Plain] = wait_until(lambda: published.http.get("/permission").json())
    assert asked[0]["patterns"] == ["git reset --hard"]
    reply = {"reply": "reject", "message": "Not now."}
    assert published.http.post(f"/permission/{asked[0]['id']}/reply", json=reply).status_code == 200
    (state,) = wait_until(
        lambda: [one for one in calls(published.parts(session)) if one["status"] == "error"]
    )
    assert "Not now." in state["error"]


def test_a_change_of_a_file_is_told_to_a_program(published: Published) -> None:
    published.turn("Write a file.")
    beats = published.home / "beats"
    wait_until(lambda: beats.exists() and "new.txt" in beats.read_text())
    assert "opencode-wakatime/1.3.9" in beats.read_text()


def test_settings_are_given_the_models_of_a_server(published: Published) -> None:
    found = published.http.get("/config/providers").json()["providers"]
    (studio,) = [one for one in found if one["id"] == "lmstudio"]
    assert list(studio["models"]) == ["made-up-8b"]


def test_a_programs_words_stand_before_the_first_prompt_and_commands_are_there(
    published: Published, model: Model
) -> None:
    published.turn("My key is nobody's.")
    assert "three issues are open" in turns(model, "My key is nobody's.")[-1]
    assert "bd-ready" in [one["name"] for one in published.http.get("/command").json()]


def test_a_login_is_offered_and_its_plugin_sends_the_calls(published: Published, vendors: Vendors) -> None:
    offered = published.http.get("/provider/auth").json()["anthropic"]
    assert [one["label"] for one in offered][:2] == ["Claude Pro/Max", "Create an API Key"]
    _, parts = published.turn("What do my notes say?", model="anthropic/claude-sonnet-4-6")
    (state,) = calls(parts)
    assert "buy milk" in state["output"]
    assert [part["text"] for part in parts if part["type"] == "text"][-1] == "Your notes say: buy milk."
    asked = [one for one in vendors.asked if one[2].get("tools")]
    assert {path for path, _, _ in asked} == {"/v1/messages?beta=true"}
    assert {headers["authorization"] for _, headers, _ in asked} == {"Bearer kept-token"}
    # On the way out it renames each tool, and on the way back the call.
    assert all(tool["name"].startswith("mcp_") for _, _, body in asked for tool in body["tools"])
    assert [part["tool"] for part in parts if part["type"] == "tool"] == ["read"]
