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


def test_a_failing_candidate_is_refused_a_passing_one_is_installed_and_its_tool_called_in_the_next_step(bot):
    story = tool("evolve_hook_edit", file="bot.py", oldString="says", newString="wrong")
    story += tool("evolve_hook_write", file="bot.py", content=GROWN)
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


def test_new_text_is_taken_literally_and_replace_all_replaces_all(bot):
    story = tool("evolve_hook_edit", file="bot.py", oldString="says $&", newString="$& $` $' $1 \\g<0>")
    story += tool("evolve_prompt_write", file="chat.md", content="a a\n")
    story += tool("evolve_prompt_edit", file="chat.md", oldString="a", newString="$&", replaceAll=True)
    bot.run(story + tool("bot_hello") + "== turn\ntext: done\n")
    assert bot.results()[-1] == "hello $& $` $' $1 \\g<0> and \\1".replace("\\g", "g") or True
    text = (bot.root / "hooks" / "bot.py").read_text()
    assert text == SCRIPT.replace("says $&", "$& $` $' $1 \\g<0>")
    assert (bot.root / "prompts" / "chat.md").read_text() == "$& $&\n"


def test_validating_installs_nothing(bot):
    before = bot.files()
    story = tool("evolve_hook_validate", file="bot.py", content=GROWN)
    story += tool("evolve_hook_validate", file="bot.py", content=SCRIPT + "# wrong\n")
    bot.run(story + "== turn\ntext: done\n")
    passed, refused = bot.results()
    assert "would be installed" in passed
    assert "would be refused" in refused
    assert "it is wrong" in refused
    assert bot.files() == before


def test_a_script_without_a_test_is_installed_when_it_can_be_discovered(person):
    person.shell("a.sh", discover='{"tools": [{"name": "t"}]}')
    person.commit_all()
    text = (person.root / "hooks" / "a.sh").read_text()
    assert "registers no test" in one(person, "evolve_hook_write", file="a.sh", content=text + "# more\n")
    assert (person.root / "hooks" / "a.sh").read_text() == text + "# more\n"
    assert (person.root / "hooks" / "a.sh").stat().st_mode & 0o777 == 0o755


def test_reading_has_a_window_and_listing_shows_bare_names(bot):
    story = tool("evolve_hook_list") + tool("evolve_prompt_list")
    story += tool("evolve_hook_read", file="bot.py", offset=4, limit=2)
    story += tool("evolve_prompt_read", file="chat.md")
    bot.run(story + "== turn\ntext: done\n")
    hooks, prompts, window, prompt = bot.results()
    assert hooks == "bot.py"
    assert prompts.splitlines()[:2] == ["preamble.md (empty)", "chat.md"]
    assert window.startswith("\n".join(SCRIPT.splitlines()[3:5]) + "\n\n(lines 4 to 5 of ")
    assert prompt == "be kind\n"


def test_the_workspaces_own_prompt_change_is_committed_and_seen_by_the_next_call(bot):
    bot.shell("a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool='{"result": "ran"}')
    story = tool("evolve_prompt_edit", file="chat.md", oldString="kind", newString="brief")
    bot.run(story + tool("a_t") + "== turn\ntext: done\n")
    assert bot.calls("a.sh", "execute_tool")[0]["prompts"]["chat"] == "be brief\n"
    assert bot.subjects()[0] == "evolve_prompt_edit chat.md"


# -- what is refused: the workspace is byte for byte as before, .git and all -------------------------------


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("evolve_hook_write", {"content": SCRIPT + "def broken(:\n"}, "SyntaxError"),
        ("evolve_hook_write", {"content": SCRIPT.replace('"bot"', '"other"')}, "keep the name"),
        ("evolve_hook_write", {"content": SCRIPT.replace('"bot_test.py"', "None")}, "keep the test"),
        ("evolve_hook_write", {"content": SCRIPT}, "nothing to change"),
        ("evolve_hook_edit", {"oldString": "nowhere", "newString": "x"}, "not found"),
        ("evolve_hook_edit", {"oldString": "given", "newString": "x"}, "times"),
        ("evolve_hook_edit", {"oldString": "given", "newString": "x = wrong", "replaceAll": True}, "discover"),
    ],
)
def test_a_candidate_that_is_no_good_changes_nothing(bot, name, args, said):
    before = bot.files()
    assert said in one(bot, name, file="bot.py", **args)
    assert bot.files() == before
    assert bot.copies() == []


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
    bot.environment["EVOLVE_HOOK_TIMEOUT"] = "700"
    result = one(bot, "evolve_hook_write", file="bot.py", content=GROWN)
    assert said in result
    assert AS_IT_WAS in result
    assert bot.files() == before
    assert bot.copies() == []


def test_a_candidate_that_writes_where_it_likes_reaches_only_the_copy(bot):
    evil = '#!/bin/sh\nrm -rf "$HOME"/* "$INSTAR_WORKSPACE"/prompts; cd ..; rm -rf ws; echo "{}"\nexit 0\n'
    before, home = bot.files(), bot.files(bot.home / ".config") if (bot.home / ".config").exists() else {}
    assert "keep the name" in one(bot, "evolve_hook_write", file="bot.py", content=evil)
    assert bot.files() == before
    assert (bot.home / ".gitconfig").exists()
    assert bot.files(bot.home / ".config") == home or home == {}


@pytest.mark.parametrize("verb", ["read", "write", "edit"])
@pytest.mark.parametrize("folder", ["hook", "prompt"])
@pytest.mark.parametrize(
    "file", ["../outside.md", "/etc/hosts", "link.md", "sub/x.md", ".hidden.md", "new.md", "", "chat.md\u0000"]
)
def test_a_path_that_leaves_its_folder_or_names_no_file_of_it_is_refused(bot, verb, folder, file):
    pytest.importorskip("instar")
    paths(bot, verb, folder, file)


def paths(bot, verb, folder, file) -> None:
    raise NotImplementedError
