"""What is played with the plugins of this folder: each scenario the same on every host."""

import json
import time
from typing import Any

from tests.conformance.play import Play, Scenario

Plain = dict[str, Any]


def _calls(tool: str, **arguments: Any) -> list[Plain]:
    return [{"tools": [(tool, arguments)]}, {"text": "Done."}]


BASH = _calls("bash", command="echo hi", description="echo hi")


def _sent(play: Play, role: str = "user") -> list[str]:
    """The texts of a role in the last request of a turn."""
    texts = []
    for one in play.requests()[-1].body["messages"]:
        if one["role"] == role:
            content = one["content"]
            # Several texts of a message may come as one or apart.
            texts += (
                [content]
                if isinstance(content, str)
                else ["\n\n".join(part.get("text", "") for part in content)]
            )
    return texts


def _offered(play: Play, name: str) -> Any:
    """What the model was told of a tool, without what says the same of every one."""
    functions = [one["function"] for one in play.requests()[0].body["tools"]]
    function = next((one for one in functions if one["name"] == name), None)
    if function is None:
        return None
    parameters = {key: one for key, one in function["parameters"].items() if key[0] != "$" and one != []}
    parameters.pop("additionalProperties", None)
    return {"description": function["description"], "parameters": parameters}


def _said(play: Play, *texts: str) -> list[str]:
    """Which of these texts stand in the last request."""
    whole = json.dumps(play.requests()[-1].body["messages"], ensure_ascii=False)
    return [text for text in texts if text in whole]


def _configured(play: Play) -> None:
    play.session()
    agents = [one["name"] for one in play.get("/agent")]
    play.answers.append({"poet": "poet" in agents})
    play.post(f"/session/{play.sessions[-1]}/command", {"command": "greet", "arguments": "Ada"})


def _command(play: Play) -> None:
    play.session()
    play.post(f"/session/{play.sessions[-1]}/command", {"command": "greet", "arguments": "Ada Byron"})


def _shells(play: Play) -> None:
    play.prompt()
    shell = {"agent": "build", "command": "echo captain $CAPTAIN"}
    play.post(f"/session/{play.sessions[-1]}/shell", shell)


def _summarized(play: Play) -> None:
    play.prompt()
    body = {"providerID": "fake", "modelID": "m"}
    play.post(f"/session/{play.sessions[-1]}/summarize", body)
    play.wait(lambda: play.requests("summary") and play.idle())


def _untitled(play: Play) -> None:
    play.session(None)
    play.prompt()
    play.wait(lambda: play.requests("title"))


def _disposed(play: Play) -> None:
    play.prompt()
    play.post("/instance/dispose")
    play.wait(play.recorded(hook="dispose"))


def _asks(reply: str) -> Any:
    def played(play: Play) -> None:
        play.prompt(path="prompt_async")
        play.reply(reply)
        play.wait(play.idle)

    return played


def _aborted(play: Play) -> None:
    play.prompt(path="prompt_async")
    play.wait(play.recorded(tool="wait", aborted=False))
    play.post(f"/session/{play.sessions[-1]}/abort")
    play.wait(play.recorded(tool="wait", aborted=True))
    play.wait(play.idle)


def _hangs(play: Play) -> None:
    """opencode waits for ever: it is aborted once a model that is asked would have been."""
    play.prompt(path="prompt_async")
    play.wait(play.recorded(hook="system.transform"))
    end = time.monotonic() + 5
    play.wait(lambda: play.requests() or time.monotonic() > end)
    play.post(f"/session/{play.sessions[-1]}/abort")
    play.wait(play.idle)


def _prompted(play: Play) -> None:
    play.prompt()
    play.wait(play.recorded(title="made by a plugin"))


def _titles(play: Play) -> Any:
    last = play.messages()[-1]
    made = sorted(one["title"] for one in play.get("/session"))
    return {"sessions": made, "last": [last["info"]["role"], last["parts"][0].get("text")]}


def _idle(play: Play) -> None:
    play.prompt()
    play.wait(play.recorded(event="session.idle"))


def _twice(play: Play) -> None:
    """What failed where nobody waits for it has been logged when the next turn is over."""
    _idle(play)
    play.prompt()
    play.wait(lambda: len(play.recorded(event="session.idle")()) == 2)


GREET = {"command": {"greet": {"template": "Greet $ARGUMENTS."}}}
DEPLOY = _calls("deploy", where="prod")

SCENARIOS = [
    Scenario("event", BASH, _idle),
    Scenario("turn", BASH),
    Scenario("configure", play=_configured, sees=_sent),
    Scenario("chat_message", sees=lambda play: [_sent(play), len(play.messages()[0]["parts"])]),
    Scenario("chat_message_refuses", sees=lambda play: [len(play.requests()), len(play.messages())]),
    Scenario(
        "chat_params",
        sees=lambda play: {
            name: play.requests()[-1].body.get(name)
            for name in ("temperature", "top_p", "max_tokens", "user")
        },
    ),
    Scenario("chat_headers", sees=lambda play: play.requests()[-1].headers.get("x-of")),
    Scenario("permission_ask", BASH, _asks("once"), settings={"permission": {"bash": "ask"}}),
    Scenario("command_before", play=_command, sees=_sent, settings=GREET),
    Scenario("tool_before", BASH),
    Scenario("tool_before_refuses", BASH),
    Scenario("tool_after", BASH),
    Scenario(
        "shell_env",
        _calls("bash", command="echo captain $CAPTAIN", description="echo captain $CAPTAIN"),
        _shells,
    ),
    Scenario("messages_transform", BASH, sees=lambda play: [_sent(play), len(play.messages())]),
    Scenario("system_transform", sees=lambda play: _said(play, "You live on a boat.", "It rains.")),
    Scenario("small_model", play=_untitled, sees=lambda play: play.requests("title")[0].body["model"]),
    Scenario(
        "compacting",
        play=_summarized,
        sees=lambda play: "Keep every file name." in json.dumps(play.requests("summary")[0].body["messages"]),
    ),
    Scenario(
        "compacting_prompt",
        play=_summarized,
        sees=lambda play: (
            "Say it in three words." in json.dumps(play.requests("summary")[0].body["messages"])
        ),
    ),
    Scenario(
        "autocontinue",
        [{"text": "Done.", "tokens": 19_000}, {"text": "And on."}],
        sees=lambda play: [one.purpose for one in play.model.requests[play.name]],
    ),
    Scenario("text_complete"),
    Scenario(
        "tool_definition",
        sees=lambda play: [
            _offered(play, "bash")["description"],
            _offered(play, "greet")["parameters"]["properties"]["name"],
        ],
    ),
    Scenario("dispose", play=_disposed),
    Scenario("tool_zod", _calls("greet", name="Ada"), sees=lambda play: _offered(play, "greet")),
    Scenario("tool_zod_invalid", _calls("greet", times="two"), plugins=[("tool_zod", {})]),
    Scenario(
        "tool_json_schema", _calls("weigh", what="milk", unit="g"), sees=lambda play: _offered(play, "weigh")
    ),
    Scenario("tool_context", _calls("look")),
    Scenario("tool_ask", DEPLOY, _asks("once"), settings={"permission": {"*": "allow", "deploy": "ask"}}),
    Scenario(
        "tool_ask_refused",
        DEPLOY,
        _asks("reject"),
        settings={"permission": {"*": "allow", "deploy": "ask"}},
        plugins=[("tool_ask", {})],
    ),
    Scenario(
        "tool_ask_denied",
        DEPLOY,
        settings={"permission": {"*": "allow", "deploy": {"*": "ask", "prod": "deny"}}},
        plugins=[("tool_ask", {})],
    ),
    Scenario("tool_abort", _calls("wait"), _aborted),
    Scenario("tool_attachments", _calls("draw")),
    Scenario("tool_throws", _calls("bake")),
    Scenario("tool_long", _calls("list")),
    Scenario("throws_at_load"),
    Scenario("throws_in_event", play=_twice),
    Scenario("throws_in_hook", sees=lambda play: _said(play, "Half a thought") if play.requests() else None),
    Scenario("never_settles", play=_hangs, sees=lambda play: len(play.requests())),
    Scenario("nonsense", BASH),
    Scenario("prints"),
    Scenario("wrong_export"),
    Scenario("v1"),
    Scenario("v1_without_id"),
    Scenario("several"),
    Scenario("given", plugins=[("given", {"colour": "blue", "deep": {"list": [1, None, True]}})]),
    Scenario("shell"),
    Scenario("client_reads", _calls("recall")),
    Scenario("client_prompts", play=_prompted, sees=_titles),
    Scenario("dedupe", plugins=[("given", {"n": 1}), ("order_a", {}), ("given", {"n": 2})]),
    Scenario("missing", plugins=[("not_there", {}), ("order_a", {})]),
    Scenario("order_of_two", plugins=[("order_b", {}), ("order_a", {})]),
    Scenario("order_of_three", plugins=[("order_a", {}), ("order_b", {}), ("order_c", {})]),
    Scenario("failing_neighbour", plugins=[("order_a", {}), ("throws_at_load", {}), ("order_b", {})]),
]
"""Each scenario once, by the name of its plugin or, of several, of what is shown."""
