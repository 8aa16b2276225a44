"""What a person defined, as clients see it."""

import pytest

COMMAND = """\
---
description: Greets somebody
agent: plan
model: scripted/echo
---
Greet $1 as $NAME.
"""
AGENT = """\
---
description: Looks twice
mode: subagent
model: scripted/echo
temperature: 0.5
top_p: 0.9
steps: 7
color: "#ff0000"
permission:
  edit: deny
reasoningEffort: high
---
You look twice.
"""


@pytest.fixture
def defined(serve):
    served = serve(
        script="== turn\nexpect: Greet Ada as Bob.\ntext: done\n", environment={"INSTAR_TRUST": "all"}
    )
    for name, text in (("command/greet.md", COMMAND), ("agent/checker.md", AGENT)):
        path = served.directory / ".opencode" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return served


@pytest.mark.slow
def test_agents_have_opencodes_shape_and_the_default_one_is_first(defined, problems):
    agents = defined.http.get("/agent").json()
    assert [problem for agent in agents for problem in problems("Agent", agent)] == []
    names = [agent["name"] for agent in agents]
    assert names[0] == "build"
    assert {"plan", "explore", "title", "checker"} < set(names)
    (checker,) = (agent for agent in agents if agent["name"] == "checker")
    assert checker.pop("permission")[-1] == {"permission": "edit", "pattern": "*", "action": "deny"}
    assert checker == {
        "name": "checker",
        "description": "Looks twice",
        "mode": "subagent",
        "native": False,
        "model": {"providerID": "scripted", "modelID": "echo"},
        "temperature": 0.5,
        "topP": 0.9,
        "steps": 7,
        "color": "#ff0000",
        "options": {"reasoningEffort": "high"},
        "prompt": "You look twice.",
    }
    assert next(agent for agent in agents if agent["name"] == "title")["hidden"] is True


@pytest.mark.slow
def test_a_default_agent_that_cannot_be_used_hides_no_other(defined):
    (defined.directory / "opencode.json").write_text('{"default_agent": "nobody"}')
    assert len(defined.http.get("/agent").json()) > 5


@pytest.mark.slow
def test_commands_have_opencodes_shape(defined, problems):
    commands = defined.http.get("/command").json()
    assert [problem for command in commands for problem in problems("Command", command)] == []
    assert {"init", "review"} < {command["name"] for command in commands}
    assert next(command for command in commands if command["name"] == "greet") == {
        "name": "greet",
        "description": "Greets somebody",
        "agent": "plan",
        "model": "scripted/echo",
        "source": "command",
        "template": "Greet $1 as $NAME.",
        "hints": ["$1", "$NAME"],
    }


@pytest.mark.slow
def test_a_command_is_run_in_a_session(defined, problems):
    session_id = defined.session()
    body = {"command": "greet", "arguments": "Ada NAME=Bob", "model": "scripted/test"}
    answer = defined.http.post(f"/session/{session_id}/command", json=body).json()
    assert problems("AssistantMessage", answer["info"]) == []
    first = defined.http.get(f"/session/{session_id}/message").json()[0]
    assert first["parts"][0]["text"] == "Greet Ada as Bob."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"command": "great", "arguments": ""}, "there is no command 'great'; there are: greet"),
        ({"arguments": "x"}, "command"),
        ({"command": "greet", "arguments": "x", "messageID": "wrong"}, "msg_"),
        ({"command": "init", "arguments": "", "agent": "nobody"}, "there is no agent 'nobody'"),
        ({"command": "init", "arguments": "", "model": "no/such"}, "unknown provider 'no'"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_and_nothing_is_stored(defined, body, said):
    session_id = defined.session()
    answer = defined.http.post(f"/session/{session_id}/command", json=body)
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
    assert said in answer.json()["data"]["message"]
    assert defined.http.get(f"/session/{session_id}/message").json() == []


@pytest.mark.slow
def test_a_command_of_a_session_that_is_not_there_is_not_found(shared):
    body = {"command": "init", "arguments": ""}
    assert shared.http.post("/session/ses_none/command", json=body).status_code == 404
