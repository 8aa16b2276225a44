import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.permission import decide, from_config
from instar.tool.command import DOUBT, MAX_TEXT, always, patterns

CERTAIN = [
    ("ls", ["ls"]),
    ("git status && rm -rf x | grep a; echo hi", ["git status", "rm -rf x", "grep a", "echo hi"]),
    ("a & b\nc", ["a", "b", "c"]),
    ("echo hi > out 2>&1", ["echo hi > out 2>&1"]),
    ("make -j2 &> log", ["make -j2 &> log"]),
    ("rm>x", ["rm >x"]),
    ("rm   -r \t x", ["rm -r x"]),
    ("git \\\n push", ["git push"]),
    ("FOO=1 BAR='a b' rm x", ["rm x"]),
    (">log 2>&1 rm x", ["rm x"]),
    ("> log rm x", ["rm x"]),
    ("(cd a; rm b)", ["cd a", "rm b"]),
    ("{ rm a; }", ["rm a"]),
    ("if true; then rm a; else rm b; fi", ["true", "rm a", "rm b"]),
    ("! rm a", ["rm a"]),
    ("echo $(rm x)", ["rm x"]),
    ("echo `rm x`", ["rm x"]),
    ('echo "a $(rm x) b"', ["rm x"]),
    ('echo "a `rm x` b"', ["rm x"]),
    ("echo $(a $(b $(rm x)))", ["rm x"]),
    ("diff <(rm a) >(rm b)", ["rm a", "rm b"]),
    ("echo 'a; rm b'", ["echo 'a; rm b'"]),
    ('echo "a; rm b"', ['echo "a; rm b"']),
    ("echo a\\; rm b", ["echo a\\; rm b"]),
    ("echo a # ; rm b", ["echo a"]),
    ("echo a#b", ["echo a#b"]),
    ("r\\m x", ["rm x"]),
    ("'r'\"m\" x", ["rm x"]),
    ("sudo rm x", ["sudo rm x", "rm x"]),
    ("env A=1 rm x", ["rm x"]),
    ("timeout 5s rm x", ["rm x"]),
    ("find . | xargs rm", ["find .", "xargs rm", "rm"]),
    ("nohup /usr/bin/sudo rm x", ["/usr/bin/sudo rm x", "rm x"]),
]


@pytest.mark.parametrize(("text", "expected"), CERTAIN, ids=[text for text, _ in CERTAIN])
def test_a_command_is_split_into_what_it_runs(text: str, expected: list[str]) -> None:
    found = patterns(text)
    assert set(expected) <= set(found)
    assert (
        expected or found[0] == " ".join(text.replace(">x", " >x").split()) or text.startswith("echo a\\\\")
    )
    assert not any(pattern.startswith(DOUBT) for pattern in found)
    assert ("rm b" in found) == ("rm b" in expected)


DOUBTFUL = [
    "cat <<EOF\nrm x\nEOF",
    "bash -c 'rm x'",
    "eval rm x",
    "eval 'rm x'",
    "/bin/sh -c 'rm x'",
    "sudo -u root rm x",
    "xargs -n 1 rm x",
    "f() { rm x; }",
    "case a in b) rm x;; esac",
    "echo 'unclosed; rm x",
    'echo "unclosed; rm x',
    "echo $(rm x",
    "echo `rm x",
    'echo "$(echo ")"; rm x)"',
    "echo $'\\x72'; rm x",
    "$(which rm) x; rm x",
    "$RM x; rm x",
    "{rm,x}; rm x",
    "trap 'rm x' EXIT",
]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_is_not_understood_is_allowed_by_no_narrow_rule(text: str) -> None:
    first = text.split()[0]
    narrow = from_config({"bash": {"*": "ask", f"{first} *": "allow", "echo *": "allow"}})
    assert decide(["bash"], patterns(text), narrow).action == "ask"
    assert decide(["bash"], patterns(text), from_config({"bash": "allow"})).action == "allow"


@pytest.mark.parametrize("text", [*DOUBTFUL, *(text for text, found in CERTAIN if "rm x" in found)])
def test_a_denied_command_is_found_wherever_it_stands(text: str) -> None:
    rules = from_config({"bash": {"*": "allow", "rm *": "deny"}})
    assert decide(["bash"], patterns(text), rules).action == "deny"


@pytest.mark.parametrize("text", ["git log | head -3", "git status && git diff", "echo 'rm x'", "ls; ls -l"])
def test_a_pipeline_of_allowed_commands_is_allowed(text: str) -> None:
    allowed = {"*": "deny", "git *": "allow", "head *": "allow", "echo *": "allow", "ls *": "allow"}
    assert decide(["bash"], patterns(text), from_config({"bash": allowed})).action == "allow"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git push origin", ["git *"]),
        ("git status && rm x", ["git *", "rm *"]),
        ("FOO=1 'git' push", ["git *"]),
        ("sudo rm x", ["sudo *", "rm *"]),
        ("sudo -u root rm x", ["sudo *"]),
        ("$X", ["$X"]),
        ("", [""]),
    ],
)
def test_always_covers_the_first_word_of_each_command(text: str, expected: list[str]) -> None:
    assert always(text) == expected


def test_a_command_too_long_to_be_started_is_not_split() -> None:
    text = "x;" * MAX_TEXT
    assert patterns(text)[:2] == [text[:], DOUBT + text]


def test_an_assignment_in_front_must_be_allowed_too() -> None:
    rules = from_config({"bash": {"*": "ask", "git *": "allow"}})
    assert decide(["bash"], patterns("git status"), rules).action == "allow"
    assert decide(["bash"], patterns("GIT_SSH=./x git status"), rules).action == "ask"
    assert decide(["bash"], patterns("> ~/.profile git status"), rules).action == "ask"


@settings(deadline=None)
@given(st.text(alphabet="ab $`\"'(){}<>|&;\\\n#=", max_size=40))
def test_any_text_is_read_to_its_end(text: str) -> None:
    found = patterns(text)
    assert found
    assert always(text)
