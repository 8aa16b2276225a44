"""Tools of JavaScript plugins: what the model is told, what a call may do, and what comes back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import until

from instar.approval.permissions import Reply
from instar.event import PermissionAsked
from instar.message import ToolCompleted
from instar.testing import Machine, calls_of, results, said

Write = Callable[..., Path]

CALL = """
== turn
tool: weather {"city": "Rome"}
== turn
text: {{tool}}
"""
TOOL = """
export const P = async () => ({ tool: { weather: {
  description: "The weather.",
  args: { city: { type: "string", description: "which" } },
  async execute(args, ctx) { BODY },
} } })
"""


def tool(write: Write, body: str) -> None:
    write(TOOL.replace("BODY", body))


async def test_a_tool_is_offered_with_its_json_schema_and_called_with_what_opencode_gives(
    house: Machine, write: Write
) -> None:
    house.says(CALL)
    tool(
        write,
        """
        ctx.metadata({ title: "looking", metadata: { step: 1 } })
        return { title: "Weather", metadata: { kind: "fog" }, output: JSON.stringify([args, Object.keys(ctx).sort(),
          ctx.agent, ctx.directory, ctx.worktree, ctx.abort.aborted, ctx.sessionID.slice(0, 4),
          ctx.messageID.slice(0, 4)]),
          attachments: [{ type: "file", mime: "text/plain", url: "data:text/plain,x" }] }
        """,
    )
    door = await house.open()
    session = await door.session()
    keys = (
        '["abort","agent","ask","callID","directory","extra","messageID","metadata","sessionID","worktree"]'
    )
    expected = f'[{{"city":"Rome"}},{keys},"build","{house.folder}","/",false,"ses_","msg_"]'
    assert said(await door.ask(session, "hi")) == expected
    offered = {one["function"]["name"]: one["function"] for one in house.requests()[0]["tools"]}
    assert offered["weather"]["description"] == "The weather."
    assert offered["weather"]["parameters"] == {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "which"}},
        "required": ["city"],
    }
    (call,) = [call for message in await door.stored(session) for call in calls_of(message)]
    assert isinstance(call.state, ToolCompleted)
    assert (call.state.title, call.state.metadata["kind"]) == ("Weather", "fog")
    assert call.state.attachments is not None
    assert call.state.attachments[0].url == "data:text/plain,x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("return 'a text'", "a text"),
        ("throw new Error('no weather today')", "no weather today"),
        ("return 7", "the tool returned 7: expected a text, or an object with `output`"),
        ("return { output: 'x', title: 9 }", "the tool returned what cannot be used"),
        ("return", "the tool returned nothing"),
        ("process.exit(1)", "it called process.exit(1)"),
        ("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})", "it was ended by SIGKILL"),
        (
            "await ctx.ask({ permission: 'fly', patterns: ['Rome'], always: [], metadata: {} }); return 'flown'",
            "flown",
        ),
        (
            "await ctx.ask({ permission: 'swim', patterns: ['Rome'], always: [], metadata: {} }); return 'x'",
            "swim",
        ),
        ("await ctx.ask({}); return 'x'", "permission"),
        (
            "await ctx.ask({ permission: 'swim', patterns: ['x'] }).catch(() => {}); return 'still here'",
            "still here",
        ),
    ],
)
async def test_what_a_tool_returns_or_throws_is_what_the_model_reads(
    house: Machine, write: Write, body: str, output: str
) -> None:
    house.settings(permission={"swim": "deny", "fly": "allow"})
    house.says(CALL)
    tool(write, body)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    (found,) = results(await door.stored(session))
    assert output in found


async def test_a_call_that_a_person_rejects_ends_the_turn_whatever_its_plugin_makes_of_it(
    house: Machine, write: Write
) -> None:
    async def rejects(_asked: PermissionAsked) -> Reply:
        return "reject"

    house.settings(permission={"fly": "ask"})
    house.says(CALL)
    tool(write, "await ctx.ask({ permission: 'fly' }).catch(() => { throw new Error('another') })")
    door = await house.open(person=rejects)
    session = await door.session()
    await door.start(session, "hi")
    await door.idle(session)
    (found,) = results(await door.stored(session))
    assert "another" not in found
    assert len(house.requests()) == 1


async def test_a_call_asks_for_nothing_but_what_its_tool_asks_for(house: Machine, write: Write) -> None:
    house.settings(permission={"weather": {"*": "ask", "Rome": "allow", "Oslo": "deny"}})
    house.says(CALL)
    tool(
        write,
        """
        await ctx.ask({ permission: "weather", patterns: ["Rome"], always: [], metadata: {} })
        return await ctx.ask({ permission: "weather", patterns: ["Oslo"] }).catch(() => "Rome alone")
        """,
    )
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    assert results(await door.stored(session)) == ["Rome alone"]
    assert door.of("permission.asked") == []


@pytest.mark.slow
async def test_a_tool_whose_name_is_denied_is_not_there(house: Machine, write: Write) -> None:
    house.settings(permission={"weather": "deny"})
    house.says(CALL)
    tool(write, "return 'it was called'")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    assert "weather" not in [one["function"]["name"] for one in house.requests()[0]["tools"]]
    (found,) = results(await door.stored(session))
    assert "it was called" not in found


async def test_an_aborted_call_is_told_by_its_signal(house: Machine, write: Write) -> None:
    house.says(CALL)
    tool(
        write,
        """
        const { writeFileSync } = await import("node:fs")
        const aborted = new Promise((resolve) => ctx.abort.addEventListener("abort", resolve))
        writeFileSync(ctx.directory + "/started", "")
        await aborted
        writeFileSync(ctx.directory + "/aborted", "")
        """,
    )
    door = await house.open()
    session = await door.session()
    await door.start(session, "hi")
    await until((house.folder / "started").exists)
    await door.client.abort(session)
    await door.idle(session)
    await until((house.folder / "aborted").exists)


@pytest.mark.slow
async def test_what_a_tool_does_after_its_call_is_refused_or_passed_over(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "instar.jshost")
    house.says(CALL)
    write("""
        let kept
        export const P = async () => ({
          tool: { weather: { description: "The weather.", args: {}, async execute(args, ctx) {
            kept = ctx
            return "fog"
          } } },
          "text.complete": async (i, o) => {
            kept.metadata({ title: "late" })
            o.text = await kept.ask({ permission: "fly" }).then(() => "allowed", (error) => error.message)
          },
        })
    """)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "the call is over"
    assert "refused method=metadata" not in caplog.text


async def test_arguments_that_do_not_fit_never_reach_the_tool(house: Machine, write: Write) -> None:
    house.says(CALL.replace('"Rome"', "7"))
    tool(write, "throw new Error('it was called')")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    (found,) = results(await door.stored(session))
    assert "it was called" not in found
    assert "city" in found
