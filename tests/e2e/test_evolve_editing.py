"""Self-modification through a session: what is installed, what is refused, and what git says of it."""

import json

import pytest

SCRIPT = """\
#!/usr/bin/env python3
import json, sys

def discover(given):
    return {"name": "bot", "test": "bot_test.py", "tools": [{"name": "hello", "description": "Greet."}]}

def execute_tool(given):
    return {"result": given["tool"] + " says $& and \\\\1"}

h = globals().get(sys.argv[1])
if not h:
    print(json.dumps({"error": f"unknown hook: {sys.argv[1]}"}))
    sys.exit(1)
print(json.dumps(h(json.loads(sys.stdin.read() or "{}"))))
"""
GROWN = SCRIPT.replace('"Greet."}', '"Greet."}, {"name": "bye", "description": "Part."}')
TEST = """\
#!/bin/sh
# Fails for a script that holds the word wrong.
cd "$INSTAR_WORKSPACE" && if grep -n wrong hooks/bot.py; then echo "it is wrong" >&2; exit 7; fi
"""
AS_IT_WAS = "The workspace is as it was."


@pytest.fixture
def bot(person):
    """A workspace with one Python script, its test and a prompt, in a repository of its own."""
    person.script("bot.py", SCRIPT)
    person.write("tests/bot_test.py", TEST, 0o755)
    person.write("prompts/chat.md", "be kind\n")
    person.commit_all()
    return person


def tool(name: str, **args: object) -> str:
    return f"== turn\ntool: {name} {json.dumps(args)}\n"


def one(person, name: str, **args: object) -> str:
    """Let the model make one call, and return what it reads of it."""
    person.run(tool(name, **args) + "== turn\ntext: done\n")
    return person.results()[-1]


# -- what is installed -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failing_candidate_is_refused_a_passing_one_is_installed_and_its_tool_called_in_the_next_step(bot):
    story = tool("evolve_hook_edit", hook="bot.py", oldString="says", newString="wrong")
    story += tool("evolve_hook_write", hook="bot.py", content=GROWN)
    bot.run(story + "== turn\nexpect_tool: bot_bye\ntool: bot_bye {}\n== turn\ntext: done\n")
    refused, installed, bye = bot.results()
    assert "failed: exit code 7" in refused
    assert "it is wrong" in refused
    assert refused.endswith(AS_IT_WAS)
    assert "Installed hooks/bot.py (commit " in installed
    assert "bot_bye" in installed
    assert bye == "bye says $& and \\1"
    assert (bot.root / "hooks" / "bot.py").read_text() == GROWN
    assert bot.subjects() == ["evolve_hook_write bot.py", "before"]
    assert bot.git("show", "--format=", "--name-only", "HEAD").split() == ["hooks/bot.py"]
    assert bot.git("status", "--porcelain") == ""
    assert "bot_bye" not in bot.tools(0)


@pytest.mark.slow
def test_new_text_is_taken_literally_and_replace_all_replaces_all(bot):
    story = tool("evolve_hook_edit", hook="bot.py", oldString=" says $&", newString="$& $` $' $1 \\\\0")
    story += tool("evolve_prompt_write", prompt="chat.md", content="a a\n")
    story += tool("evolve_prompt_edit", prompt="chat.md", oldString="a", newString="$&", replaceAll=True)
    bot.run(story + tool("bot_hello") + "== turn\ntext: done\n")
    assert bot.results()[-1].startswith("hello$& $` $' $1 ")
    text = (bot.root / "hooks" / "bot.py").read_text()
    assert text == SCRIPT.replace(" says $&", "$& $` $' $1 \\\\0")
    assert (bot.root / "prompts" / "chat.md").read_text() == "$& $&\n"


@pytest.mark.slow
def test_calls_of_one_answer_see_what_the_calls_before_them_changed(bot):
    calls = (
        tool("evolve_hook_write", hook="bot.py", content=GROWN),
        tool("evolve_tool_list"),
        tool("evolve_prompt_write", prompt="chat.md", content="be short\n"),
        tool("evolve_prompt_edit", prompt="chat.md", oldString="short", newString="brief"),
        tool("evolve_prompt_read", prompt="chat.md"),
    )
    bot.run("== turn\n" + "".join(calls).replace("== turn\n", "") + "== turn\ntext: done\n")
    told = bot.results()
    assert "Installed hooks/bot.py" in told[0]
    assert "bot_bye" in told[1]
    assert "be brief" in told[4]


@pytest.mark.slow
def test_validating_installs_nothing(bot):
    before = bot.files()
    story = tool("evolve_hook_validate", hook="bot.py", content=GROWN)
    story += tool("evolve_hook_validate", hook="bot.py", content=SCRIPT + "# wrong\n")
    bot.run(story + "== turn\ntext: done\n")
    passed, refused = bot.results()
    assert "would be installed" in passed
    assert "would be refused" in refused
    assert "it is wrong" in refused
    assert bot.files() == before


@pytest.mark.slow
def test_a_session_reads_what_another_one_tried_and_does_not_try_the_same_again(bot):
    wrong = tool("evolve_hook_edit", hook="bot.py", oldString="says", newString="wrong")
    bot.run(wrong + "== turn\ntext: done\n")
    bot.run(tool("evolve_hook_read", hook="bot.py") + wrong + "== turn\ntext: done\n")
    read, again = bot.results()[-2:]
    assert read.startswith(SCRIPT)
    assert "\n\nTried before and not kept, newest first (" in read
    assert "refused at test: its test tests/bot_test.py failed: exit code 7" in read
    assert ' | + return {"result": given["tool"] + " wrong' in read
    assert "just this was refused before, at the stage test" in again
    assert again.endswith(AS_IT_WAS)


@pytest.mark.slow
def test_a_script_without_a_test_is_installed_when_it_can_be_discovered(person):
    person.shell("a.sh", discover='{"tools": [{"name": "t"}]}')
    person.commit_all()
    text = (person.root / "hooks" / "a.sh").read_text()
    assert "registers no test" in one(person, "evolve_hook_write", hook="a.sh", content=text + "# more\n")
    assert (person.root / "hooks" / "a.sh").read_text() == text + "# more\n"
    assert (person.root / "hooks" / "a.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.slow
def test_reading_has_a_window_and_listing_shows_bare_names(bot):
    story = tool("evolve_hook_list") + tool("evolve_prompt_list")
    story += tool("evolve_hook_read", hook="bot.py", offset=4, limit=2)
    story += tool("evolve_prompt_read", prompt="chat.md")
    story += tool("evolve_prompt_write", prompt="chat.md", content="one\ntwo\nthree\n")
    story += tool("evolve_prompt_read", prompt="chat.md", offset=2, limit=1)
    bot.run(story + "== turn\ntext: done\n")
    hooks, prompts, window, prompt, _, line = bot.results()
    assert hooks == "bot.py"
    assert prompts.startswith("chat.md\n(not there: preamble.md, heartbeat.md, ")
    assert window.startswith("\n".join(SCRIPT.splitlines()[3:5]) + "\n\n(lines 4 to 5 of ")
    assert prompt == "be kind\n"
    assert line.startswith("two\n\n(lines 2 to 2 of ")


BUILTIN = {
    "datetime": ({}, "20"),
    "heartbeat_time": ({}, "never"),
    "prompt_list": ({}, "chat.md"),
    "prompt_read": ({"prompt": "chat.md"}, "be kind"),
    "prompt_write": ({"prompt": "chat.md", "content": "be brief\n"}, "Wrote prompts/chat.md"),
    "prompt_edit": (
        {"prompt": "chat.md", "oldString": "brief", "newString": "short"},
        "Wrote prompts/chat.md",
    ),
    "hook_list": ({}, "bot.py"),
    "hook_read": ({"hook": "bot.py"}, SCRIPT),
    "hook_write": ({"hook": "bot.py", "content": SCRIPT + "# more\n"}, "Installed hooks/bot.py"),
    "hook_edit": ({"hook": "bot.py", "oldString": "says", "newString": "tells"}, "Installed hooks/bot.py"),
    "hook_validate": ({"hook": "bot.py", "content": SCRIPT + "# more\n"}, "hooks/bot.py would be installed"),
}
"""The README's tools: the arguments of a call, and how its answer begins."""
GATED = ["hook_write", "hook_edit", "hook_validate"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [[name for name in BUILTIN if name not in GATED], *([one] for one in GATED)]
)
def test_each_builtin_tool_of_the_readme_answers_under_a_scripts_prefix(bot, names):
    bot.run("".join(tool(f"bot_{name}", **BUILTIN[name][0]) for name in names) + "== turn\ntext: done\n")
    for name, answer in zip(names, bot.results(), strict=True):
        assert answer.startswith(BUILTIN[name][1]), name


def test_an_empty_workspace_lists_what_is_there_and_says_what_can_be_written(person):
    person.write("prompts/mood.md", "glad\n")
    asked = tool("evolve_prompt_list")
    asked += tool("evolve_prompt_edit", prompt="chat.md", oldString="a", newString="b")
    person.run(asked + "== turn\ntext: done\n")
    listed, edited = person.results()
    missing = "preamble.md, chat.md, heartbeat.md, compaction.md, recover.md"
    allowed = 'the agent may not create files here (a person allows it by "evolve": {"create": "allow"})'
    assert listed == f"mood.md (not read: it serves no stage)\n(not there: {missing}; {allowed})"
    assert edited == f"there is no prompts/chat.md: {allowed}"
    person.config(evolve={"create": "allow"})
    asked += tool("evolve_prompt_write", prompt="chat.md", content="Be kind.\n") + tool("evolve_prompt_list")
    person.run(asked + "== turn\ntext: done\n")
    listed, edited, written, again = person.results()
    assert listed.endswith(f"\n(evolve_prompt_write can make {missing})")
    assert edited == "there is no prompts/chat.md: write it whole with evolve_prompt_write"
    assert written.startswith("Wrote prompts/chat.md")
    assert again.startswith("chat.md\nmood.md (not read")


def test_the_name_that_an_argument_had_before_is_still_taken(bot):
    story = tool("evolve_hook_read", file="bot.py", limit=1) + tool("evolve_prompt_read", file="chat.md")
    story += tool("evolve_prompt_read", file="mood.md") + tool(
        "evolve_prompt_read", prompt="chat.md", file="x"
    )
    bot.run(story + "== turn\ntext: done\n")
    script, prompt, other, both = bot.results()
    assert script.startswith("#!/usr/bin/env python3\n")
    assert prompt == "be kind\n"
    assert "prompt: expected one of" in other
    assert "file" in both


@pytest.mark.slow
def test_the_workspaces_own_prompt_change_is_committed_and_seen_by_the_next_call(bot):
    bot.shell("a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool='{"result": "ran"}')
    story = tool("evolve_prompt_edit", prompt="chat.md", oldString="kind", newString="brief")
    bot.run(story + tool("a_t") + "== turn\ntext: done\n")
    assert bot.calls("a.sh", "execute_tool")[0]["prompts"]["chat"] == "be brief\n"
    assert bot.subjects()[0] == "evolve_prompt_edit chat.md"


# -- what is refused: the workspace is byte for byte as before, .git and all -------------------------------


NO_GOOD = [
    ("evolve_hook_write", {"content": SCRIPT + "def broken(:\n"}, "SyntaxError"),
    ("evolve_hook_write", {"content": SCRIPT.replace('"bot"', '"other"')}, "keep the name"),
    ("evolve_hook_write", {"content": SCRIPT.replace('"bot_test.py"', "None")}, "keep the test"),
    ("evolve_hook_write", {"content": SCRIPT}, "nothing to change"),
    ("evolve_hook_edit", {"oldString": "nowhere", "newString": "x"}, "not found"),
    ("evolve_hook_edit", {"oldString": "given", "newString": "x"}, "times"),
    ("evolve_hook_edit", {"oldString": "given", "newString": "x = y", "replaceAll": True}, "discover"),
    ("evolve_hook_edit", {"oldString": "", "newString": "x"}, "oldString is empty"),
]


@pytest.mark.slow
def test_a_candidate_that_is_no_good_changes_nothing_and_the_model_is_told_why(bot):
    before = bot.files()
    bot.run("".join(tool(name, hook="bot.py", **args) for name, args, _ in NO_GOOD) + "== turn\ntext: done\n")
    for result, (_, _, said) in zip(bot.results(), NO_GOOD, strict=True):
        assert said in result
    assert bot.files() == before
    assert bot.copies() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda test: test.unlink(), "tests/bot_test.py is missing: a person must add it"),
        (lambda test: test.chmod(0o644), "missing its run bit: chmod +x tests/bot_test.py"),
        (lambda test: test.write_text("#!/bin/sh\nkill -9 $$\n"), "signal 9"),
        (lambda test: test.write_text("#!/none/such\n"), "could not be started"),
        (lambda test: test.write_text("#!/bin/sh\nsleep 60 & sleep 60\n"), "longer than hook_timeout"),
    ],
)
def test_a_test_that_cannot_pass_changes_nothing(bot, spoil, said):
    spoil(bot.root / "tests" / "bot_test.py")
    before = bot.files()
    bot.environment["EVOLVE_HOOK_TIMEOUT"] = "3000"
    result = one(bot, "evolve_hook_write", hook="bot.py", content=GROWN)
    assert said in result
    assert AS_IT_WAS in result
    assert bot.files() == before
    assert bot.copies() == []


@pytest.mark.slow
def test_a_candidate_that_removes_all_it_is_told_of_reaches_only_the_copy(bot):
    evil = '#!/bin/sh\nrm -rf "$HOME"/* "$INSTAR_WORKSPACE"/* "$TMPDIR"/*; cd ..; rm -rf ws; echo "{}"\n'
    before = bot.files()
    result = one(bot, "evolve_hook_write", hook="bot.py", content=evil)
    assert "must keep the test" in result or "longer than a discover may take" in result
    assert bot.files() == before
    assert (bot.home / ".gitconfig").exists()
    assert bot.copies() == []


OUTSIDE = [
    "../outside.md",
    "../../secret.md",
    "/etc/hosts",
    "link.md",
    "sub/x.md",
    ".hidden.md",
    "new.md",
    "",
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hook", "prompt"])
def test_a_path_that_leaves_its_folder_or_names_no_file_of_it_is_refused(bot, kind):
    (bot.folder / "secret.md").write_text("SECRET")
    bot.write("outside.md", "SECRET")
    for folder in ("hooks", "prompts"):
        bot.write(f"{folder}/sub/x.md", "SECRET", 0o755)
        bot.write(f"{folder}/.hidden.md", "SECRET", 0o755)
        (bot.root / folder / "link.md").symlink_to(bot.folder / "secret.md")
    (bot.folder / "secret.md").chmod(0o755)
    before = bot.files(bot.folder)
    lines = []
    for file in [*OUTSIDE, str(bot.root / "outside.md"), "bot.py\u0000"]:
        edit = {kind: file, "oldString": "SECRET", "newString": "x"}
        for verb, args in (
            ("read", {kind: file}),
            ("write", {kind: file, "content": "x"}),
            ("edit", edit),
        ):
            lines.append(f"tool: evolve_{kind}_{verb} {json.dumps(args)}\n")
    bot.run(f"== turn\n{''.join(lines)}== turn\ntext: done\n")
    results = bot.results()
    assert len(results) == len(lines)
    for result in results:
        assert "SECRET" not in result
        assert "Wrote" not in result
        assert "Installed" not in result
    after = bot.files(bot.folder)
    assert {name: after[name] for name in before if name.startswith(("ws/", "secret.md"))} == {
        name: before[name] for name in before if name.startswith(("ws/", "secret.md"))
    }
    assert sorted(name for name in after if name.startswith("ws/")) == sorted(
        name for name in before if name.startswith("ws/")
    )


def test_hooks_that_are_themselves_a_link_are_not_changed(bot):
    (bot.root / "hooks").rename(bot.folder / "elsewhere")
    (bot.root / "hooks").symlink_to(bot.folder / "elsewhere")
    story = tool("evolve_hook_list") + tool("evolve_hook_write", hook="bot.py", content=GROWN)
    ran = bot.run(story + "== turn\ntext: done\n")
    assert bot.results()[0] == "(no hook scripts)"
    assert bot.results()[1] == "hooks/bot.py is a symbolic link; evolve changes only real files"
    (said,) = ran.logged("evolve=departed")
    assert said.endswith('"hooks cannot be used: it is a symbolic link; a guarded folder must be a folder"')
    assert (bot.folder / "elsewhere" / "bot.py").read_text() == SCRIPT


# -- git -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_workspace_without_history_gets_one_that_shows_what_was_there_before(person):
    person.script("bot.py", SCRIPT)
    person.write("tests/bot_test.py", TEST, 0o755)
    person.write("notes/a.md", "a")
    one(person, "evolve_hook_write", hook="bot.py", content=GROWN)
    assert person.subjects() == ["evolve_hook_write bot.py", "initial"]
    initial = person.git("show", "--format=%an", "--name-only", "HEAD~1").split()
    assert initial == ["Ada", "hooks/bot.py", "notes/a.md", "tests/bot_test.py"]


WRITER = '$ mkdir -p notes; echo more >>notes/a.md; echo \'{"result": "ok", "modified": ["notes/a.md"]}\''
QUIET = '{"result": "ok"}'


@pytest.mark.slow
def test_each_tool_run_that_changed_something_is_a_commit_and_no_other(person):
    discover = '{"tools": [{"name": "t"}]}'
    person.shell("a.sh", discover=discover, execute_tool=WRITER)
    person.shell("b.sh", discover=discover, execute_tool=QUIET)
    person.run(tool("a_t") + tool("b_t") + tool("a_t") + "== turn\ntext: done\n")
    assert person.subjects() == ["a_t", "a_t", "initial"]
    session = person.requests()[0]["session"]
    assert f"Session: {session}" in person.git("log", "-1", "--format=%b")


@pytest.mark.slow
def test_the_commit_of_a_change_names_every_tool_that_was_running(person):
    wait = "until git log --format=%s | grep -q b_t; do sleep 0.02; done"
    person.shell("a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool=f"$ echo x >a.md; {wait}")
    person.shell(
        "b.sh",
        discover='{"tools": [{"name": "t"}]}',
        execute_tool="$ until [ -e a.md ]; do sleep 0.02; done",
    )
    person.run("== turn\ntool: a_t {}\ntool: b_t {}\n== turn\ntext: done\n")
    assert person.subjects() == ["b_t, a_t", "initial"]
    assert "Also running: a_t call_t1_1" in person.git("log", "-1", "--format=%b")


@pytest.mark.slow
def test_a_change_by_one_of_the_runtimes_own_tools_is_committed_too(person):
    person.shell("a.sh", discover="{}")
    story = (
        f"== turn\ntool: write {json.dumps({'filePath': str(person.root / 'notes.md'), 'content': 'x'})}\n"
    )
    story += tool("bash", command=f"echo y >>{person.root}/notes.md; exit 3")
    person.run(story + tool("bash", command="true") + "== turn\ntext: done\n", "--auto")
    assert (person.root / "notes.md").exists(), person.results()
    assert person.subjects() == ["bash", "write", "initial"]
    assert person.git("status", "--porcelain") == ""


def test_what_an_observing_script_changed_is_committed(person):
    person.shell(
        "a.sh", discover="{}", observe_message='$ echo x >>seen.md; echo \'{"modified": ["seen.md"]}\''
    )
    person.run("== turn\ntext: done\n")
    assert person.subjects() == ["observe_message", "initial"]


@pytest.mark.slow
def test_a_workspace_inside_another_repository_leaves_that_one_alone(person):
    outer = person.folder / "outer"
    inner = outer / "ws"
    person.write("notes.md", "n")
    person.script("bot.py", SCRIPT)
    person.write("tests/bot_test.py", TEST, 0o755)
    outer.mkdir()
    (outer / "mine.txt").write_text("mine")
    person.commit_all(outer)
    (outer / "mine.txt").write_text("staged")
    person.git("add", "mine.txt", cwd=outer)
    (outer / ".gitignore").write_text("ws/\n")
    person.root.rename(inner)
    person.root = inner
    person.environment["INSTAR_WORKSPACE"] = str(inner)
    before = person.files(outer / ".git"), person.git("status", "--porcelain", cwd=outer)
    assert "(commit " in one(person, "evolve_hook_write", hook="bot.py", content=GROWN)
    assert (person.files(outer / ".git"), person.git("status", "--porcelain", cwd=outer)) == before
    assert person.subjects() == ["evolve_hook_write bot.py", "initial"]


@pytest.mark.slow
def test_what_the_person_has_staged_or_left_uncommitted_stays_so(bot):
    bot.write("staged.md", "staged")
    bot.git("add", "staged.md")
    bot.write("prompts/chat.md", "edited by hand\n")
    bot.write("untracked.md", "u")
    assert "(commit " in one(bot, "evolve_hook_write", hook="bot.py", content=GROWN)
    status = sorted(bot.git("status", "--porcelain").splitlines())
    assert status == [" M prompts/chat.md", "?? untracked.md", "A  staged.md"]
    assert bot.git("show", "--format=", "--name-only", "HEAD").split() == ["hooks/bot.py"]


@pytest.mark.slow
def test_a_git_hook_of_the_workspace_that_fails_is_not_run(bot):
    for name in ("pre-commit", "commit-msg", "post-commit"):
        bot.write(f".git/hooks/{name}", "#!/bin/sh\ntouch ../ran\nexit 1\n", 0o755)
    assert "(commit " in one(bot, "evolve_hook_write", hook="bot.py", content=GROWN)
    assert bot.subjects()[0] == "evolve_hook_write bot.py"
    assert not (bot.folder / "ran").exists()


@pytest.mark.slow
def test_without_a_git_identity_instar_signs(person):
    (person.home / ".gitconfig").unlink()
    person.script("bot.py", SCRIPT)
    person.write("tests/bot_test.py", TEST, 0o755)
    assert "(commit " in one(person, "evolve_hook_write", hook="bot.py", content=GROWN)
    assert set(person.git("log", "--format=%an").split()) == {"instar"}


@pytest.mark.slow
def test_when_git_fails_the_change_stays_and_its_commit_is_made_later(bot):
    lock = bot.root / ".git" / "index.lock"
    lock.touch()
    story = tool("evolve_hook_write", hook="bot.py", content=GROWN)
    # A script of the person's own may reach what no child of the model does.
    bot.config(evolve={"own_scripts": "free"})
    bot.shell("own.sh", discover='{"tools": [{"name": "unlock"}]}', execute_tool=f"$ rm {lock}")
    story += tool("own_unlock")
    story += tool("evolve_prompt_write", prompt="chat.md", content="new\n")
    ran = bot.run(story + "== turn\ntext: done\n", "--auto")
    first, _, last = bot.results()
    assert "not committed: git failed" in first
    assert ran.logged("git=failed", "index.lock")
    assert "(commit " in last
    assert [subject for subject in bot.subjects() if "own" not in subject][:2] == [
        "evolve_prompt_write chat.md",
        "evolve_hook_write bot.py",
    ]
    (made,) = bot.git("log", "--format=%H", "--grep=^evolve_hook_write bot.py").split()
    assert bot.git("show", "--format=", "--name-only", made).split() == ["hooks/bot.py"]
    assert f"Session: {bot.requests()[0]['session']}" in bot.git("log", "-1", "--format=%B", made)


@pytest.mark.slow
def test_a_commit_that_could_not_be_made_is_made_by_the_next_run_with_the_session_that_it_was_of(bot):
    lock = bot.root / ".git" / "index.lock"
    lock.touch()
    assert "not committed: git failed" in one(bot, "evolve_hook_write", hook="bot.py", content=GROWN)
    session = bot.requests()[0]["session"]
    lock.unlink()
    bot.run("== turn\ntext: done\n")
    assert bot.subjects()[0] == "evolve_hook_write bot.py"
    assert bot.requests()[-1]["session"] != session
    assert f"Session: {session}" in bot.git("log", "-1", "--format=%B")
    assert bot.git("show", "--format=", "--name-only").split() == ["hooks/bot.py"]


@pytest.mark.slow
def test_in_the_middle_of_a_persons_merge_nothing_is_committed_and_status_says_so(bot):
    for branch in ("theirs", "mine"):
        bot.git("checkout", "--quiet", "-b", branch, "HEAD~1" if branch == "mine" else "HEAD")
        bot.write("story.md", f"{branch}\n")
        bot.git("add", "story.md")
        bot.git("commit", "--quiet", "--message", branch)
    bot.git("merge", "--no-commit", "--no-ff", "-s", "ours", "theirs")
    assert (bot.root / ".git" / "MERGE_HEAD").exists()
    assert "not committed: git failed" in one(bot, "evolve_prompt_write", prompt="chat.md", content="new\n")
    assert bot.subjects()[0] == "mine"
    bot.git("commit", "--quiet", "--message", "merged")
    bot.run("== turn\ntext: done\n")
    assert bot.subjects()[:2] == ["evolve_prompt_write chat.md", "merged"]
