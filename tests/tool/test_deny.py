"""A deny means what it says: held by what bash really runs, and by how little of ordinary work is asked about."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.campaign import oracle

from instar.settings.permission import from_config
from instar.testing import Machine, results
from instar.tool import bash

pytest_plugins = ["tests.turn"]

DENIED = {"*": "allow", "git push *": "deny", "rm -rf *": "deny", "npm publish *": "deny", "sudo *": "deny"}
"""The denials of docs/reference/permissions.md."""
WORK = Path(__file__).parents[1] / "data" / "agents_commands.txt"


@pytest.mark.slow
def test_no_denied_program_runs_by_a_command_that_the_rules_allow() -> None:
    if oracle.bubblewrap() is None:
        pytest.skip("bubblewrap is needed to run commands that nobody looked at")
    ran = oracle.run(oracle.commands(300, seed=2))
    assert [(one.text, hit) for one, hit in oracle.holes(ran)] == []
    assert sum(bool(one.hits) for one in ran) > 150


def commands() -> list[str]:
    """The command lines of the file: a heredoc may hold blank lines, so that one ends where its text does."""
    found = [""]
    ends = ""
    for line in WORK.read_text().splitlines():
        if not ends and (line.startswith("# ") and not found[-1]):
            continue
        if not ends and not line:
            found.append("")
            continue
        found[-1] += f"\n{line}" if found[-1] else line
        if not ends and "<<" in line:
            ends = line.partition("<<")[2].strip("-' ").partition("'")[0].partition(" ")[0]
        elif line == ends:
            ends = ""
    return [one for one in found if one]


def test_of_ordinary_work_at_most_one_command_in_twenty_is_asked_about(ctx: Any) -> None:
    rules = from_config({"bash": DENIED})
    texts = commands()
    assert len(texts) == 200
    asked = [text for text in texts if is_asked(text, ctx, rules)]
    assert len(asked) <= len(texts) // 20, asked


def is_asked(text: str, ctx: Any, rules: Any) -> bool:
    *outside, _ = bash.permissions({"command": text}, ctx)
    return bool(outside) or oracle.decided(text, rules) != "allow"


PUSHES = [
    "git -C . push",
    "git -c a.b=c push",
    "git --no-pager push",
    "/usr/bin/git push",
    "p=push; git $p origin HEAD",
    "X=-exec; find . $X git push \\;",
    "PS4='$(git push)'; set -x; true",
    "/full/path/git push",
    "setarch -R git push",
    "sg root 'git push'",
    "capsh -- -c 'git push'",
    "git -c alias.q='!git push' q",
    'python3 -c \'import subprocess; subprocess.run(["git", "push"])\'',
]


@pytest.mark.parametrize("command", PUSHES)
async def test_a_session_does_not_push_past_a_deny(house: Machine, tmp_path: Path, command: str) -> None:
    house.settings(permission={"bash": {"*": "allow", "git push *": "deny"}})
    house.says(f"== turn\ntool: bash {json.dumps({'command': command})}\n\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (answer,) = results(await door.stored(session))
    assert "prevents you from using this" in answer or "needs a person's answer" in answer


async def test_a_setting_names_the_options_of_a_program_that_stand_before_its_subcommand(
    house: Machine,
) -> None:
    house.settings(
        permission={"bash": {"*": "allow", "deploy wipe *": "deny"}}, permission_options={"deploy": ["--to"]}
    )
    command = json.dumps({"command": "deploy --to prod wipe all"})
    house.says(f"== turn\ntool: bash {command}\n\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (answer,) = results(await door.stored(session))
    assert "(may run) deploy wipe all" in answer


READS = [
    "cat $(echo /home/person)/.ssh/id_rsa",
    "xargs cat <<< ~/.ssh/id_rsa",
    "echo /etc/shadow | xargs cat",
    "cat $(printf '\\57etc/passwd')",
    "x=Q/etc/passwd; cat ${x#Q}",
    "x=/etc/passwdQ; cat ${x%Q}",
    "cat $OLDPWD/x",
    "while read f; do cat $f; done <<< /etc/passwd",
    "read f <<< /etc/passwd; cat $f",
    "echo L2V0Yy9wYXNzd2Q= | base64 -d | xargs head",
    "head $(rev <<< dwssap/cte/)",
    "f() { cat $1; }; f /etc/passwd",
    "set -- /etc/passwd; cat $1",
    "cat < $(echo /etc/passwd)",
]


@pytest.mark.parametrize("command", READS)
def test_a_path_that_is_known_only_when_it_runs_is_asked_about(ctx: Any, command: str) -> None:
    outside = [ask for ask in bash.permissions({"command": command}, ctx) if ask.permission != "bash"]
    assert {ask.permission for ask in outside} == {"external_directory"}


@pytest.mark.parametrize(
    "command",
    [
        "for f in $(git ls-files); do cat $f; done",
        "find . -name '*.py' | while read -r f; do head -3 \"$f\"; done",
        "git ls-files | xargs wc -l",
        "cat $(git rev-parse --show-toplevel)/README.md",
        'for f in src/*.c; do cat "${f%.c}.h" "${f##*/}"; done',
        "while read f; do cat $f; done < list",
    ],
)
def test_paths_of_the_folder_that_programs_print_are_not_asked_about(ctx: Any, command: str) -> None:
    assert [ask.permission for ask in bash.permissions({"command": command}, ctx)] == ["bash"]


@pytest.mark.parametrize(
    ("command", "pattern", "decision"),
    [
        ("docker -H tcp://a:1 push x", "docker push *", "deny"),
        ("docker compose -f a.yml down", "docker compose down *", "deny"),
        ("kubectl -n prod delete pod x", "kubectl delete *", "deny"),
        ("npm --prefix web publish", "npm publish *", "deny"),
        ("cargo +nightly --color never publish", "cargo publish *", "deny"),
        ("aws --prof x s3 rm s3://b", "aws s3 rm *", "deny"),
        ("terraform -chdir=x destroy", "terraform destroy *", "deny"),
        ('git commit -m "$MESSAGE"', "git push *", "allow"),
        ("git $(echo push)", "git push *", "ask"),
        ("git stash push", "git push *", "allow"),
        ("for f in $(git ls-files); do rm -- $f; done", "rm -rf *", "allow"),
        ("for f in $(git ls-files); do rm $f; done", "rm -rf *", "ask"),
        ("rm *", "rm -rf *", "ask"),
        ("rm *.o", "rm -rf *", "allow"),
        ("npx rimraf x", "rimraf *", "ask"),
        ("python -m pip install x", "pip install *", "ask"),
        ("echo git push", "git push *", "allow"),
        ("grep -rn 'git push' docs", "git push *", "allow"),
    ],
)
def test_a_rule_on_a_subcommand_is_found_behind_options_and_unknown_words(
    command: str, pattern: str, decision: str
) -> None:
    rules = from_config({"bash": {"*": "allow", pattern: "deny"}})
    assert oracle.decided(command, rules) == decision
