"""Hooks of JavaScript plugins: the same output seen by each plugin in turn, in both languages, and what goes wrong."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import SOON, until

from instar.event import PluginError
from instar.message import WithParts
from instar.plugin import points
from instar.testing import Machine, answer_of, results, said

Write = Callable[..., Path]

HELLO = """
== turn
text: hello
"""
ECHO = """
== turn
tool: bash {"command": "echo hi"}
== turn
text: {{tool}}
"""


async def test_plugins_of_both_languages_change_one_output_in_the_order_of_registration(
    house: Machine, write: Write
) -> None:
    house.says(HELLO)
    js = "export const P = async () => ({ 'text.complete': async (i, o) => { o.text += ' NAME' } })"
    python = "async def p(i, o):\n    async def c(g, o):\n        o.text += ' NAME'\n    return {'text.complete': c}\n"
    names = ["one.js", "two.py", "three.js", "four.py"]
    for name in names:
        write((js if name.endswith("js") else python).replace("NAME", name), name, "own")
    house.settings(plugin=[str(house.folder / "own" / name) for name in names])
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello one.js two.py three.js four.py"


@pytest.mark.slow
async def test_every_hook_of_opencode_is_called_with_its_own_words(house: Machine, write: Write) -> None:
    house.says(ECHO)
    write("""
        import { appendFileSync } from "node:fs"
        const names = ["chat.message", "chat.params", "chat.headers", "permission.ask", "tool.execute.before",
          "tool.execute.after", "shell.env", "experimental.chat.messages.transform",
          "experimental.chat.system.transform", "experimental.text.complete", "tool.definition"]
        export const All = async ({ directory }) => {
          const note = (name) => async (input, output) =>
            appendFileSync(directory + "/seen", `${name} ${Object.keys(input).sort()} ${Object.keys(output).sort()}\\n`)
          return Object.fromEntries(names.map((name) => [name, note(name)]))
        }
    """)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hi\n"
    seen = set((house.folder / "seen").read_text().splitlines())
    assert seen == {
        "chat.message sessionID message,parts",
        "chat.params agent,message,model,provider,purpose,sessionID options,temperature",
        "chat.headers agent,message,model,provider,purpose,sessionID headers",
        "tool.definition toolID description,jsonSchema,parameters",
        "experimental.chat.messages.transform  messages",
        "experimental.chat.system.transform model,purpose,sessionID system",
        "tool.execute.before callID,sessionID,tool args",
        "permission.ask always,callID,metadata,patterns,permission,sessionID,tool status",
        "shell.env callID,cwd,sessionID env",
        "tool.execute.after args,callID,sessionID,tool metadata,output,title",
        "experimental.text.complete messageID,partID,sessionID text",
    }


async def test_a_hook_is_given_the_model_as_opencode_describes_it(house: Machine, write: Write) -> None:
    house.says(HELLO)
    write("""
        const shown = ({ model }) => [model.capabilities.toolcall, model.cost.cache.read, model.api.id,
          model.status, model.headers, model.variants, model.family, model.release_date]
        export const P = async () => ({
          "chat.params": async (i, o) => { o.options.seen = shown(i) },
          "experimental.chat.system.transform": async (i, o) => { o.system.push(JSON.stringify(shown(i))) },
        })
    """)
    door = await house.open()
    await door.ask(await door.session(), "hi")
    request = house.requests()[-1]
    shown = [True, 0, "x", "active", {}, {}, "", ""]
    assert (request["params"]["options"]["seen"], json.loads(request["system"][-1])) == (shown, shown)


@pytest.mark.slow
async def test_what_hooks_change_reaches_the_model_and_the_tools(house: Machine, write: Write) -> None:
    house.says(ECHO)
    write("""
        export const P = async () => ({
          "chat.message": async (i, o) => { o.parts.push({ type: "text", text: "and this", synthetic: true }) },
          "chat.params": async (i, o) => { o.temperature = 0.25; o.options.extra = 1 },
          "experimental.chat.system.transform": async (i, o) => { o.system.push("Be brief.") },
          "tool.definition": async (i, o) => {
            if (i.toolID === "bash") o.jsonSchema = { ...o.jsonSchema, title: "T" }
          },
          "tool.execute.before": async (i, o) => { o.args.command = "echo $WORD" },
          "shell.env": async (i, o) => { o.env.WORD = "changed" },
          "tool.execute.after": async (i, o) => { o.output = o.output.trim() + "!" },
        })
    """)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "changed!"
    first, *_ = house.requests()
    assert first["system"][-1] == "Be brief."
    assert "and this" in str(first["messages"])
    assert first["params"]["temperature"] == 0.25
    (bash,) = [tool for tool in first["tools"] if tool["function"]["name"] == "bash"]
    assert bash["function"]["parameters"]["title"] == "T"


GATE = "export const P = async () => ({ 'tool.execute.before': async (i, o) => { %s } })"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("throw new Error('not today')", "not today"),
        ("throw 'a text'", "a text"),
        ("process.exit(3)", "it called process.exit(3)"),
        ("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})", "it was ended by SIGKILL"),
        ("o.args = 'no object'", "what it left in `args` cannot be used"),
        ("o.args.self = o.args", "JSON"),
        ("delete o.args", "what it left in `args` cannot be used"),
    ],
)
async def test_a_gate_that_fails_refuses_the_call_and_the_turn_goes_on(
    house: Machine, write: Write, body: str, reason: str
) -> None:
    house.says(ECHO)
    write(GATE % body)
    door = await house.open()
    session = await door.session()
    assert reason in said(await door.ask(session, "hi"))
    (output,) = results(await door.stored(session))
    assert reason in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("o.text = 7", "what it left in `text` cannot be used"),
        ("o.text = 'half'; throw new Error('broken')", "broken"),
        ("o.text = 10n", "BigInt"),
        ("o.text = undefined", "what it left in `text` cannot be used"),
    ],
)
async def test_a_change_that_makes_no_sense_is_discarded_and_said(
    house: Machine, write: Write, body: str, reason: str
) -> None:
    house.says(HELLO)
    write(
        "export const P = async () => ({ 'text.complete': async (i, o) => { BODY } })".replace("BODY", body)
    )
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello"
    (failed,) = door.of("plugin.error")
    assert (failed.plugin, failed.hook) == ("mine", "experimental.text.complete")
    assert reason in failed.message


@pytest.mark.slow
@pytest.mark.parametrize("work", ["await new Promise(() => {})", "while (true) {}"])
async def test_a_hook_that_never_returns_is_ended_and_named_and_the_next_call_works(
    house: Machine, write: Write, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if work.startswith("while"):
        monkeypatch.setattr("instar.jshost.host._PING", 0.2)
    house.says("== turn\ntext: one\n== turn\ntext: two\n")
    write(
        """
        export const P = async () => ({
          timeout: 3,
          "text.complete": async (i, o) => { if (o.text === "one") { WORK } o.text += "!" },
        })
    """.replace("WORK", work)
    )
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "one"
    (failed,) = door.of("plugin.error")
    assert failed.message == "it did not return within 3 s and was ended"
    assert said(await door.ask(session, "hi")) == "two!"


@pytest.mark.slow
async def test_an_answer_that_comes_too_late_is_passed_over(house: Machine, write: Write) -> None:
    house.says("== turn\ntext: one\n== turn\ntext: two\n== turn\ntext: three\n")
    write("""
        const child = Math.random()
        let answer
        const answered = new Promise((resolve) => { answer = resolve })
        export const P = async () => ({ timeout: 3, "text.complete": async (i, o) => {
          if (o.text === "one") return await answered
          // The first call's answer is on its way before this one's.
          answer()
          await new Promise((done) => setImmediate(done))
          o.text += child
        } })
    """)
    door = await house.open()
    session = await door.session()
    one, two, three = [said(await door.ask(session, "hi")) for _ in range(3)]
    assert one == "one"
    assert two.removeprefix("two") == three.removeprefix("three") != ""


@pytest.mark.slow
async def test_an_observer_has_five_seconds_unless_it_says_otherwise(house: Machine, write: Write) -> None:
    house.says("== turn\ntext: one\n")
    hang = "'text.complete': async () => { await new Promise((done) => setTimeout(done, 5_500)) }"
    write(f"export const P = async () => ({{ {hang} }})", "first.js")
    write(f"export const Q = async () => ({{ {hang}, timeout: null }})", "second.js")
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "one"
    (failed,) = door.of("plugin.error")
    assert (failed.plugin, failed.message) == ("first", "it did not return within 5 s and was ended")


async def test_settings_limit_a_hook_point_by_its_name_or_kind(house: Machine, write: Write) -> None:
    house.settings(plugin_timeouts={"text.complete": 0.5, "gate": 1})
    house.says('== turn\ntool: bash {"command": "true"}\n== turn\ntext: one\n')
    write("""
        export const P = async () => ({
          "text.complete": async () => { await new Promise(() => {}) },
          "tool.execute.before": async () => { await new Promise(() => {}) },
        })
    """)
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "one"
    (failed,) = door.of("plugin.error")
    assert failed.message == "it did not return within 0.5 s and was ended"
    (refused,) = results(await door.stored(session))
    assert "it did not return within 1 s" in refused


@pytest.mark.slow
async def test_a_listener_that_never_lets_go_is_named_and_the_others_work(
    house: Machine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.jshost.host._HELD", 2)
    house.says("== turn\ntext: one\n== turn\ntext: two\n")
    write("export const P = async () => ({ event: async ({ event }) => { "
          "while (event.type === 'session.idle') {} } })", "bad.js")  # fmt: skip
    write("export const Q = async () => ({ 'text.complete': async (i, o) => { o.text += '!' } })", "good.js")
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "one!"
    await door.until(lambda event: event.type == "plugin.error")
    assert [(one.plugin, one.hook, one.message) for one in door.of("plugin.error")] == [
        ("bad", "event", "it did not let go of an event within 2 s and was ended")
    ]
    assert said(await door.ask(session, "hi")) == "two!"


async def test_a_plugin_cannot_end_what_runs_it(house: Machine, write: Write) -> None:
    # Behind a shield its parent is no process of instar's, or cannot be signalled.
    house.settings(shield={"level": "none"})
    house.says("== turn\ntext: one\n== turn\ntext: two\n")
    write("""
        export const P = async () => ({ "text.complete": async (i, o) => {
          o.text += process.kill(process.ppid, 0)
          process.kill(process.ppid)
        } })
    """)
    door = await house.open()
    session = await door.session()
    assert [said(await door.ask(session, "hi")) for _ in range(2)] == ["one", "two"]
    (failed, _) = door.of("plugin.error")
    assert failed.message.startswith("it called process.kill(process.ppid), which would end instar")


@pytest.mark.slow
async def test_a_child_that_ends_again_and_again_is_left_alone(house: Machine, write: Write) -> None:
    house.says("".join(f"== turn\ntext: {number}\n" for number in range(5)))
    write("""
        export const P = async () => ({ "text.complete": async () => process.kill(process.pid, "SIGKILL") })
    """)
    door = await house.open()
    session = await door.session()
    assert [said(await door.ask(session, "hi")) for _ in range(5)] == ["0", "1", "2", "3", "4"]
    assert "is left alone for a while" in door.of("plugin.error")[-1].message


async def test_what_a_plugin_prints_goes_to_the_log(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.jshost")
    house.says(HELLO)
    write("""
        export const P = async () => {
          console.log("to stdout"); console.error("to stderr"); process.stdout.write("no end of line\\n")
          return { "text.complete": async (i, o) => { console.log("in a hook") } }
        }
    """)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello"
    for text in ("to stdout", "to stderr", "no end of line", "in a hook"):
        await until(lambda text=text: f"printed line={text}" in caplog.text)


@pytest.mark.slow
async def test_events_come_in_order_and_a_slow_listener_holds_nothing_up(
    house: Machine, write: Write
) -> None:
    house.says(HELLO)
    write("""
        import { appendFileSync } from "node:fs"
        export const P = async ({ directory }) => ({
          event: async ({ event }) => {
            appendFileSync(directory + "/events", event.type + "\\n")
            if (event.type === "session.idle") throw new Error("bad listener")
            await new Promise(() => {})
          },
        })
    """)
    door = await house.open()
    await door.ask(await door.session(), "hi")
    failed = await door.until(lambda event: isinstance(event.properties, PluginError))
    assert failed.to_plain()["properties"] == {"plugin": "mine", "hook": "event", "message": "bad listener"}
    heard = (house.folder / "events").read_text().splitlines()
    types = door.types()
    assert heard == types[types.index(heard[0]) :][: len(heard)]
    assert {"session.created", "message.part.updated", "session.idle"} <= set(heard)


async def test_what_a_listener_does_with_the_last_event_is_done_before_the_child_ends(
    house: Machine, write: Write
) -> None:
    house.says(HELLO)
    write("""
        import { writeFileSync } from "node:fs"
        export const P = async ({ directory }) => ({
          event: async ({ event }) => {
            if (event.type !== "session.idle") return
            await new Promise((resolve) => setTimeout(resolve, 100))
            writeFileSync(directory + "/idle", "")
          },
        })
    """)
    door = await house.open()
    await door.ask(await door.session(), "hi")
    await door.runtime.close()
    assert (house.folder / "idle").exists()


async def test_a_listener_that_never_lets_go_does_not_keep_the_instance_from_its_end(
    house: Machine, write: Write
) -> None:
    house.says(HELLO)
    write("export const P = async () => ({ event: () => new Promise(() => {}) })")
    door = await house.open()
    await door.ask(await door.session(), "hi")
    await asyncio.wait_for(door.runtime.close(), SOON)


LISTENER = "export const P = async () => ({ event: async ({ event }) => { if (%s) throw new Error(%s) } })"


async def test_a_listener_that_fails_again_and_again_is_named_once_and_hears_of_that_without_an_end(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.jshost")
    house.says(HELLO + HELLO)
    write(LISTENER % ("['session.idle', 'plugin.error'].includes(event.type)", "'again'"))
    door = await house.open()
    session = await door.session()
    for count in (1, 2):
        await door.ask(session, "hi")
        await until(lambda count=count: caplog.text.count("event=session.idle error=again") == count)
    await until(lambda: "event=plugin.error error=again" in caplog.text)
    await door.runtime.close()
    assert [one.message for one in door.of("plugin.error")] == ["again"]
    assert caplog.text.count("event=plugin.error error=again") == 1


@pytest.mark.slow
async def test_of_a_listener_that_fails_each_time_in_another_way_some_failures_are_published(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.jshost.host._MOST_NAMED", 2)
    house.says(HELLO)
    write(LISTENER % ("event.type !== 'plugin.error'", "Math.random()"))
    door = await house.open()
    await door.ask(await door.session(), "hi")
    await until(lambda: caplog.text.count("plugin failed plugin=mine hook=event") > 3)
    await door.runtime.close()
    assert len(door.of("plugin.error")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        "o.messages = 7",
        "o.messages = null",
        "delete o.messages",
        "o.messages.push(0)",
        "o.messages.push(-1, 99)",
        "o.messages.push(null)",
        "o.messages.push({ info: {} })",
        "o.messages[0].info.time = o",
    ],
)
async def test_messages_that_are_none_are_discarded_and_said(house: Machine, write: Write, work: str) -> None:
    house.says(HELLO)
    write(
        "export const P = async () => ({ 'chat.messages.transform': async (i, o) => { WORK } })".replace(
            "WORK", work
        )
    )
    door = await house.open()
    assert said(await door.ask(await door.session(), "my question")) == "hello"
    (failed,) = door.of("plugin.error")
    assert failed.hook == "experimental.chat.messages.transform"
    assert "what it left in `messages` cannot be used" in failed.message or "circular" in failed.message
    assert str(house.requests()[0]["messages"]).count("my question") == 1


@pytest.mark.slow
async def test_a_config_hook_that_throws_or_never_ends_changes_nothing_and_is_named(
    house: Machine, write: Write
) -> None:
    for name, work in {
        "a": "throw new Error('no')",
        "b": "await new Promise(() => {})",
        "c": "process.exit(1)",
    }.items():
        write(
            "export const P = async () => ({ timeout: LIMIT, config: async (c) => { c.username = 1; WORK } })".replace(
                "WORK", work
            ).replace("LIMIT", "1" if name == "b" else "30"),
            f"{name}.js",
        )
    door = await house.open()
    reasons = [one.partition(" changed is left out: ")[::2] for one in door.runtime.notices]
    assert reasons == [
        ("what the plugin a", "no"),
        ("what the plugin b", "it did not return within 1 s and was ended"),
        (
            "what the plugin c",
            "it called process.exit(1), which would end every plugin: that is not done here",
        ),
    ]
    assert door.runtime.settings.config.data.get("username") != 1


async def test_the_config_hook_changes_the_settings(house: Machine, write: Write) -> None:
    write(
        "export const P = async () => ({ config: async (c) => { c.agent = { poet: { prompt: 'Rhyme.' } } } })"
    )
    write("export const Q = async () => ({ config: async (c) => { c.agent = 7 } })", "other.js")
    door = await house.open()
    assert "poet" in await door.runtime.agents()
    (notice,) = door.runtime.notices
    assert notice.startswith("what the plugin other changed is left out:")


async def test_the_config_hook_is_given_what_opencode_fills_in_and_none_of_it_becomes_a_setting(
    house: Machine, write: Write
) -> None:
    path = write(
        """
        import { writeFileSync } from "node:fs"
        export const P = async ({ directory }) => ({ config: async (c) => {
          writeFileSync(directory + "/seen", JSON.stringify(c))
          c.agent.poet = { prompt: "Rhyme." }
        } })
    """,
        "p.js",
        "own",
    )
    house.settings(plugin=[[str(path), {"loud": True}]])
    door = await house.open()
    seen = json.loads((house.folder / "seen").read_text())
    assert (seen["$schema"], seen["mode"], seen["agent"]) == ("https://opencode.ai/config.json", {}, {})
    assert isinstance(seen["username"], str)
    (origin,) = seen["plugin_origins"]
    assert (seen["plugin"], origin["spec"], origin["scope"]) == (
        [[str(path), {"loud": True}]],
        seen["plugin"][0],
        "global",
    )
    assert origin["source"].endswith(".json")
    assert "poet" in await door.runtime.agents()
    assert not door.runtime.settings.config.data.keys() & {"$schema", "username", "mode", "plugin_origins"}


async def test_what_goes_by_no_hooks_name_is_left_alone_and_a_hook_that_is_none_is_named(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("export const P = async () => ({ name: 'mine', version: '1.2', 'chat.params': 'a text' })")
    await house.open()
    odd = [one.getMessage() for one in caplog.records if "odd hook" in one.getMessage()]
    assert odd == ["odd hook hook=chat.params: it is neither a function nor an object, and is never called"]


async def test_messages_are_pushed_removed_and_changed_and_history_stays_as_it_was(
    house: Machine, write: Write
) -> None:
    house.says("== turn\ntext: one\n== turn\ntext: two\n== turn\ntext: three\n")
    write("""
        let calls = 0
        export const P = async () => ({
          "experimental.chat.messages.transform": async (i, o) => {
            calls += 1
            if (calls === 2) { o.messages[0].parts[0].text = "CHANGED"; o.messages.splice(1, 1) } // the answer
            if (calls === 3) { o.messages.push(structuredClone(o.messages[0])); o.messages[0].parts[0].text += "+" }
          },
        })
    """)
    door = await house.open()
    session = await door.session()
    for text in ("first", "second", "third"):
        await door.ask(session, text)
    sent = [[(one["role"], one["content"]) for one in request["messages"]] for request in house.requests()]
    assert str(sent[0]).count("first") == 1
    assert "CHANGED" in str(sent[1])
    assert "one" not in str(sent[1])
    assert "first+" in str(sent[2])
    assert str(sent[2]).count("first") == 2
    assert "one" in str(sent[2])
    stored = await door.stored(session)
    assert [said(one) for one in stored][::2] == ["first", "second", "third"]


async def test_a_message_that_a_hook_adds_needs_no_ids(house: Machine, write: Write) -> None:
    write("""
        export const P = async () => ({
          "experimental.chat.messages.transform": async (i, o) => {
            o.messages[0].parts.push({ type: "text", text: "a part of mine" })
            o.messages.push({ info: { role: "user" }, parts: [{ type: "text", text: "a message of mine" }] })
          },
        })
    """)
    house.says(HELLO)
    door = await house.open()
    await door.ask(await door.session(), "hi")
    sent = str([one["content"] for one in house.requests()[0]["messages"]])
    assert "a part of mine" in sent
    assert "a message of mine" in sent
    assert not door.of("plugin.error")


async def test_dispose_is_called_at_the_end(house: Machine, write: Write) -> None:
    write("""
        import { writeFileSync } from "node:fs"
        export const P = async ({ directory }) => ({ dispose: async () => { writeFileSync(directory + "/gone", "") } })
    """)
    door = await house.open()
    await door.runtime.close()
    assert (house.folder / "gone").exists()


async def test_a_failure_outside_of_a_call_is_named_and_ends_nothing(house: Machine, write: Write) -> None:
    house.says(HELLO)
    write("""
        export const P = async () => ({
          "text.complete": async (i, o) => { o.text += "!"; setTimeout(() => { throw new Error("later") }, 1) },
        })
    """)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello!"
    failed = await door.until(lambda event: isinstance(event.properties, PluginError))
    assert failed.to_plain()["properties"]["message"] == "later"
    assert failed.to_plain()["properties"]["plugin"] == "mine"
    assert said(await door.ask(await door.session(), "hi")) == "hello!"


@pytest.mark.slow
async def test_a_transform_of_four_hundred_messages_is_sent_what_changed(
    house: Machine, write: Write
) -> None:
    write(
        "const mark = async (i, o) => { o.messages.at(-1).info.mark = 1 }\n"
        "export const P = async () => ({ 'chat.messages.transform': mark })"
    )
    house.says(HELLO)
    door = await house.open()
    session = await door.session()
    answer = await door.ask(session, "hi")
    assert answer_of(answer).error is None
    user, assistant = await door.stored(session)
    assistant.parts[0].text = "word " * 200  # type: ignore[union-attr]
    messages = [user.copy() if number % 2 else assistant.copy() for number in range(400)]

    async def transformed() -> tuple[float, list[WithParts]]:
        output = points.MessagesOutput(messages=list(messages))
        began = time.perf_counter()
        await door.runtime.instance.plugins.trigger(points.MESSAGES, points.Empty(), output)
        return time.perf_counter() - began, output.messages

    first, _ = await transformed()
    taken = []
    for _ in range(5):
        seconds, found = await transformed()
        taken.append(seconds)
        assert found[:-1] == messages[:-1]
        assert found[0] is messages[0]
        assert found[-1].to_plain()["info"]["mark"] == 1
    # What is known there already is not sent again.
    assert min(taken) < first
    await asyncio.sleep(0)
