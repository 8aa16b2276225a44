"""The hook protocol of opencode-evolve's README, sentence by sentence, through `instar run` on a real workspace."""

import json

import pytest

DONE = "== turn\ntext: done\n"
EMPTY_PROMPTS = dict.fromkeys(("preamble", "chat", "heartbeat", "compaction", "recover"), "")


# -- "all executable files in hooks/ are autodiscovered and called as subprocesses" ----------------------


def test_scripts_run_in_alphabetical_order_without_hidden_ones_and_their_answers_are_merged(person):
    for name in ("c.sh", "a.sh", "b.sh", ".hidden.sh", "__cached.sh"):
        person.shell(
            name,
            # Two at once would find each other's folder.
            discover="$ mkdir serial && sleep 0.05 && rmdir serial && echo '{}'",
            mutate_request=json.dumps({"system": [f"{name} one"]}) + f'\n{{"system": ["{name} two"]}}',
        )
    (person.root / "hooks" / "folder").mkdir()
    ran = person.run(DONE)
    assert ran.logged("failed=") == []
    names = ("a.sh", "b.sh", "c.sh")
    assert person.order("discover") == list(names)
    assert person.order("mutate_request") == list(names)
    assert person.systems() == [[f"{name} {word}" for name in names for word in ("one", "two")]]


@pytest.mark.slow
def test_texts_of_several_scripts_are_joined_by_a_newline_and_lists_are_concatenated(person):
    for name in ("a.sh", "b.sh"):
        person.shell(
            name,
            discover="{}",
            idle=f'{{"continue": "{name} goes on"}}' if name == "a.sh" else '{"continue": "so does b"}',
            observe_message=f'{{"modified": ["{name}.md"], "notify": [{{"type": "{name}"}}], "actions": []}}',
        )
    story = "== turn\ntext: one\n" + "== turn\ntext: more\n" * 9
    ran = person.run(story, code=None)
    assert "a.sh goes on\nso does b" in person.said()
    assert ran.logged("hook=observe_message", '"modified": ["a.sh.md", "b.sh.md"]')
    assert ran.logged("hook=observe_message", '"notify": [{"type": "a.sh"}, {"type": "b.sh"}]')


def test_a_script_gets_the_hook_as_argument_json_on_stdin_the_workspace_as_folder_and_no_keys(person):
    person.script(
        "a.py",
        """\
        #!/usr/bin/env python3
        import json, os, sys
        given = json.load(sys.stdin)
        print(json.dumps({"system": [json.dumps([sys.argv[1:], given["hook"], os.getcwd(),
            os.environ.get("INSTAR_WORKSPACE"), os.environ.get("OPENCODE_EVOLVE_WORKSPACE"),
            os.environ.get("MY_API_KEY"), os.environ.get("GIVEN_TOKEN"), given["prompts"]])]}))
        """,
    )
    person.write("config/evolve.jsonc", '{"pass_environment": ["GIVEN_TOKEN"] /* "//" */}')
    person.write("prompts/chat.md", "be // kind")
    person.run(DONE, MY_API_KEY="secret", GIVEN_TOKEN="given")
    root = str(person.root)
    ((text,),) = person.systems()
    prompts = EMPTY_PROMPTS | {"chat": "be // kind"}
    wanted = [["mutate_request"], "mutate_request", root, root, root, None, "given", prompts]
    assert json.loads(text) == wanted


def test_log_lines_and_standard_error_go_to_the_log_and_nowhere_else(person):
    person.shell(
        "a.sh",
        discover="{}",
        mutate_request="""$ echo '{"log": "a note"}'; echo '{"system": ["s"]}'; echo 'to "stderr"' >&2""",
    )
    ran = person.run(DONE)
    assert person.systems() == [["s"]]
    assert ran.logged("script=a.sh", "hook=mutate_request", 'log="a note"')
    assert ran.logged("script=a.sh", "hook=mutate_request", r"stderr=", "stderr")
    assert ran.stdout == "done\n"


# -- the hooks, one by one -----------------------------------------------------------------------------


def test_discover_is_called_once_at_the_start_and_the_name_is_the_files_stem_where_none_is_given(person):
    person.shell("my-bot.sh", discover='{"tools": [{"name": "t", "description": "d"}]}')
    person.run("== turn\ntool: my-bot_t {}\n" + DONE)
    assert len(person.calls("my-bot.sh", "discover")) == 1
    assert person.calls("my-bot.sh", "discover")[0]["hook"] == "discover"


def test_mutate_request_is_called_once_a_session_with_its_history(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["s"]}')
    person.run("== turn\ntool: evolve_datetime {}\n" + DONE)
    person.run(DONE * 3, "--continue")
    (given,) = person.calls("a.sh", "mutate_request")
    assert given["session"]["id"] == person.requests()[0]["session"]
    asked = given["history"][0]
    assert (asked["role"], asked["agent"]) == ("user", "build")
    assert [(part["type"], part["text"]) for part in asked["parts"]] == [("text", "hi")]


def test_observe_message_gets_thinking_calls_and_answer_after_each_answer_and_idle_only_the_last(person):
    person.shell("a.sh", discover="{}", observe_message="{}", idle="{}")
    person.run(
        """\
        == turn
        reasoning: let me see
        text: I look.
        tool: evolve_datetime {}
        tool: evolve_hook_read {"hook": "none.sh"}

        == turn
        text: It is late.
        """
    )
    first, second = person.calls("a.sh", "observe_message")
    session = {"id": person.requests()[0]["session"], "agent": "build"}
    assert first["session"] == second["session"] == session
    assert (first["thinking"], first["answer"]) == ("let me see", "I look.")
    assert [(call["tool"], call["state"]["status"]) for call in first["calls"]] == [
        ("evolve_datetime", "completed"),
        ("evolve_hook_read", "error"),
    ]
    assert first["calls"][0]["callID"]
    assert first["calls"][0]["state"]["output"].endswith("Z")
    assert (second["thinking"], second["calls"], second["answer"]) == ("", [], "It is late.")
    (idle,) = person.calls("a.sh", "idle")
    assert (idle["session"], idle["answer"]) == (session, "It is late.")
    assert "hi" not in (first["answer"], second["answer"], idle["answer"])


def test_idle_makes_the_session_go_on_until_it_says_nothing(person):
    person.shell(
        "a.sh",
        discover="{}",
        idle="""$ test -e went || echo '{"continue": "follow-up prompt text"}'; touch went""",
    )
    ran = person.run("== turn\ntext: one\n== turn\nexpect: follow-up prompt text\ntext: two\n")
    assert person.said() == ["hi", "follow-up prompt text"]
    assert ran.stdout == "one\ntwo\n"


@pytest.mark.slow
def test_idle_that_never_ends_is_stopped_by_the_cap_and_the_person_is_told(person):
    person.shell("a.sh", discover="{}", idle='{"continue": "more"}')
    ran = person.run("".join(f"== turn\ntext: {number}\n" for number in range(12)), code=None)
    assert len(person.requests()) == 9
    assert "8 times" in ran.stderr


def test_tool_before_and_tool_after_see_every_call_also_of_other_tools_and_one_that_failed(person):
    person.shell("a.sh", discover="{}", tool_before="{}", tool_after="{}")
    person.run('== turn\ntool: bash {"command": "echo out"}\ntool: read {"filePath": "/none"}\n' + DONE)
    # Hooks of different calls run at once.
    before, after = (
        sorted(person.calls("a.sh", hook), key=lambda one: one["tool"])
        for hook in ("tool_before", "tool_after")
    )
    session = {"id": person.requests()[0]["session"]}
    assert [one["session"] for one in before + after] == [session] * 4
    assert [(one["tool"], one["args"]) for one in before] == [
        ("bash", {"command": "echo out"}),
        ("read", {"filePath": "/none"}),
    ]
    assert [one["callID"] for one in before] == [one["callID"] for one in after]
    assert [(one["tool"], one["title"], one["output"]) for one in after] == [
        ("bash", "echo out", "out\n"),
        ("read", "", person.results()[1]),
    ]


def test_execute_tool_returns_its_result_and_modified_notify_and_actions_travel_with_it(person):
    answer = {"result": "tool output", "modified": ["file.md"], "notify": [{"type": "some_change"}]}
    answer["actions"] = [{"type": "create_session", "title": "t"}]
    person.shell(
        "a.sh",
        discover='{"tools": [{"name": "my_tool", "parameters": {"arg": "description"}}]}',
        execute_tool=json.dumps(answer),
    )
    ran = person.run('== turn\ntool: a_my_tool {"arg": "value"}\n' + DONE, "--format", "json")
    assert person.results() == ["tool output"]
    (part,) = [
        line["part"] for line in map(json.loads, ran.stdout.splitlines()) if line["type"] == "tool_use"
    ]
    kept = {key: part["state"]["metadata"][key] for key in ("modified", "notify", "actions")}
    assert kept == {key: answer[key] for key in kept}
    assert ran.logged("hook=execute_tool", "effects=", "create_session")


# -- recover -------------------------------------------------------------------------------------------

RECOVER = '{"system": ["recovery prompt"], "user": "recovery instructions"}'


@pytest.mark.slow
def test_recover_replaces_the_system_prompt_of_this_step_only_and_its_user_text_follows(person):
    person.shell("a.sh", discover="{}", mutate_request="$ test -e well || exit 3; echo '{\"system\": [\"well\"]}'",
                 recover=RECOVER)  # fmt: skip
    person.run(
        """\
        == turn
        tool: bash {"command": "touch WS/well"}
        == turn
        text: one
        == turn
        text: two
        """.replace("WS", str(person.root)),
        "--auto",
    )
    assert person.systems() == [["recovery prompt"], ["well"], ["well"]]
    assert person.said() == ["hi", "recovery instructions"]
    (given,) = person.calls("a.sh", "recover")
    assert given["failed_hook"] == "mutate_request"
    assert "exit code 3" in given["error"]


@pytest.mark.slow
def test_only_the_script_that_failed_is_asked_to_recover_and_the_others_go_on(person):
    person.shell("a.sh", discover="{}", idle="$ exit 3", recover=RECOVER)
    person.shell("b.sh", discover="{}", idle='$ echo b >>ran; echo "{}"', recover='{"system": ["wrong"]}')
    person.run("== turn\ntext: one\n== turn\ntext: two\n")
    assert (person.root / "ran").read_text() == "b\nb\n"
    assert person.systems()[1] == ["recovery prompt"]
    assert person.calls("b.sh", "recover") == []


@pytest.mark.slow
def test_recover_md_speaks_where_the_script_does_not(person):
    person.shell("a.sh", discover="{}", idle="$ exit 3")
    person.write("prompts/preamble.md", "preamble")
    person.write("prompts/recover.md", "mend yourself")
    person.run("== turn\ntext: one\n== turn\ntext: two\n")
    assert person.systems()[1] == ["preamble", "mend yourself"]
    assert person.said() == ["hi", "mend yourself"]


@pytest.mark.slow
def test_a_tool_that_fails_is_an_error_for_the_model_and_is_recovered(person):
    person.shell(
        "a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool="$ echo oops; exit 1", recover=RECOVER
    )
    person.run("== turn\ntool: a_t {}\n== turn\ntext: one\n== turn\ntext: two\n")
    (result,) = person.results()
    assert "a.sh execute_tool" in result
    assert "oops" in result
    assert person.systems()[1] == ["recovery prompt"]
    assert person.systems()[2] == person.systems()[0]
    assert person.said() == ["hi", "recovery instructions"]
    assert person.calls("a.sh", "recover")[0]["failed_hook"] == "execute_tool"


@pytest.mark.slow
def test_an_observational_hook_that_fails_is_logged_and_not_recovered(person):
    observing = ("observe_message", "tool_before", "tool_after")
    person.shell("a.sh", discover="{}", **dict.fromkeys(observing, "$ exit 3"), recover=RECOVER)
    ran = person.run("== turn\ntool: evolve_datetime {}\n" + DONE)
    for hook in observing:
        assert ran.logged("script=a.sh", f"hook={hook} failed=", "exit code 3")
    assert person.calls("a.sh", "recover") == []
    assert person.results()[0].endswith("Z")


def test_a_script_whose_discover_fails_is_recovered_in_the_next_step(person):
    person.shell("a.sh", discover="$ exit 3", recover=RECOVER)
    person.run("== turn\ntext: one\n== turn\ntext: two\n")
    assert [given["failed_hook"] for given in person.calls("a.sh", "recover")] == ["discover"]
    assert person.systems()[0] == ["recovery prompt"]
    assert person.systems()[1] != ["recovery prompt"]
    assert person.said() == ["hi", "recovery instructions"]


def test_a_script_that_fails_at_everything_says_what_to_do_once(person):
    person.script("a.sh", '#!/bin/sh\n[ "$1" = discover ] || exit 3\n')
    person.write("prompts/recover.md", "mend yourself")
    person.run("== turn\ntext: one\n== turn\ntext: two\n")
    assert person.said() == ["hi", "mend yourself"]
    assert person.systems() == [["mend yourself"], ["mend yourself"]]
    # The same where its discover fails as well.
    person.script("a.sh", "#!/bin/sh\nexit 3\n")
    person.accept()
    person.run("== turn\ntext: one\n== turn\ntext: two\n")
    assert person.said() == ["hi", "mend yourself"]
    assert person.systems()[2] == ["mend yourself"]


def test_a_recover_that_fails_itself_ends_there(person):
    person.shell("a.sh", discover="{}", idle="$ exit 3", recover="$ exit 4")
    ran = person.run(DONE)
    assert ran.logged("script=a.sh", "hook=recover", "exit code 4")
    assert len(person.calls("a.sh", "recover")) == 1


@pytest.mark.slow
def test_a_script_that_does_not_know_a_hook_is_not_asked_again(person, minimal_hook):
    text = minimal_hook.replace('"tools": []', '"tools": [{"name": "t"}]')
    asked = 'if __name__ == "__main__":\n    open("asked", "a").write(sys.argv[1] + "\\n")'
    person.script("mybot.py", text.replace('if __name__ == "__main__":', asked))
    person.write("prompts/recover.md", "must not be said")
    ran = person.run(
        "== turn\ntool: evolve_datetime {}\n== turn\ntool: evolve_datetime {}\n== turn\ntext: done\n"
    )
    asked_for = (person.root / "asked").read_text().split()
    assert sorted(set(asked_for)) == sorted(asked_for)
    assert ran.logged("failed=") == []
    assert person.said() == ["hi"]


# -- compaction ----------------------------------------------------------------------------------------


async def summarised(person) -> str:
    """What the model was asked for a summary with; one turn goes before it and one after."""
    person.tell("== turn\ntext: one\n== turn\ntext: two\n== compaction\ntext: short\n")
    door = await person.open()
    session = await door.session()
    await door.ask(session)
    await door.runtime.session.summarize(session)
    await door.ask(session)
    return person.requests("compaction")[0]["messages"][-1]["content"]


async def test_compacting_gives_the_prompt_of_the_scripts(person):
    person.shell("a.sh", discover="{}", compacting='{"prompt": "compaction prompt text..."}')
    person.write("prompts/compaction.md", "not this")
    text = await summarised(person)
    assert text.startswith("compaction prompt text...")
    assert "[User]: hi" in text
    assert "not this" not in text
    (given,) = person.calls("a.sh", "compacting")
    assert given["session"]["id"] == person.requests()[0]["session"]
    assert [one["role"] for one in given["history"]][:2] == ["user", "assistant"]


async def test_compaction_md_is_the_default_and_the_frozen_prompt_stays_after_it(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["frozen"]}', compacting="{}")
    person.write("prompts/compaction.md", "the default")
    assert (await summarised(person)).startswith("the default")
    assert person.requests("compaction")[0]["system"] != ["frozen"]
    assert person.systems() == [["frozen"], ["frozen"]]


async def test_compacting_prompts_of_several_scripts_are_joined_by_a_newline(person):
    for name in ("b.sh", "a.sh"):
        person.shell(name, discover="{}", compacting=json.dumps({"prompt": f"{name} says"}))
    assert (await summarised(person)).startswith("a.sh says\nb.sh says")


async def test_compacting_that_fails_is_recovered_and_the_summary_is_made_all_the_same(person):
    person.shell("a.sh", discover="{}", compacting="$ exit 3", recover=RECOVER)
    person.write("prompts/compaction.md", "the default")
    assert (await summarised(person)).startswith("the default")
    (given,) = person.calls("a.sh", "recover")
    assert given["failed_hook"] == "compacting"
    assert "recovery instructions" in [text for request in person.requests() for text in said(request)]
    assert ["recovery prompt"] in person.systems()


@pytest.mark.slow
async def test_what_scripts_change_when_a_session_begins_or_is_summed_up_is_committed(person):
    person.shell(
        "a.sh",
        discover="{}",
        mutate_request="$ echo 1 >>begun.md; echo '{}'",
        compacting="$ echo 1 >>summed.md; echo '{}'",
        idle="$ echo 1 >>idle.md; echo '{}'",
    )
    await summarised(person)
    assert person.git("status", "--porcelain", "*.md") == ""
    assert [one for one in person.subjects() if one != "idle"] == ["compacting", "mutate_request", "initial"]
    session = person.requests()[0]["session"]
    assert person.git("log", "--format=%(trailers:key=Session,valueonly)").split() == [session] * 4


def said(request) -> list[str]:
    return [one["content"] for one in request["messages"] if one["role"] == "user"]


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mistake_in_the_settings_names_line_and_column_and_evolve_stays_off(person):
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["managed"]}')
    person.write("config/evolve.jsonc", '{\n  // a comment\n  "hook_timeout": "soon"\n}\n')
    ran = person.run(DONE)
    assert ran.logged("evolve.jsonc:3:19", "hook_timeout")
    assert person.systems()[0] != ["managed"]
    assert person.calls("a.sh", "discover") == []
    person.write("config/evolve.jsonc", '{"hook_timeout": }')
    person.accept()
    assert person.run(DONE).logged("evolve.jsonc:1:18")


@pytest.mark.slow
def test_an_environment_variable_wins_over_the_file(person):
    person.shell("a.sh", discover="{}", mutate_request="$ sleep 20")
    person.write("config/evolve.jsonc", '{"hook_timeout": 20000}')
    ran = person.run(DONE, EVOLVE_HOOK_TIMEOUT="3000")
    assert ran.logged("script=a.sh", "hook=mutate_request", "hook_timeout (3000 ms)")
