"""Which places outside a command asks for, through the tool's own permissions."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from instar.settings.permission import DOUBT
from instar.testing import Machine, results
from instar.tool import bash

pytest_plugins = ["tests.turn"]


@pytest.fixture
def place(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with folders and links; around it `out` and a home, which are outside."""
    for folder in ("out/deep", "home", "project/sub/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "out" / "f").touch()
    (project / "link").symlink_to("../out")
    (project / "inner").symlink_to("sub")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "out"))
    monkeypatch.chdir(project)
    return tmp_path


def asked(command: str, ctx: Any, place: Path, **args: Any) -> tuple[set[str], bool]:
    """The places asked for, relative to `place`, and whether the command is in doubt."""
    command = command.replace("OUT", str(place / "out")).replace("IN", str(ctx.directory))
    asks = bash.permissions({"command": command, **args}, ctx)
    places = [pattern for ask in asks if ask.permission == "external_directory" for pattern in ask.patterns]
    doubt = any(pattern.startswith(DOUBT) for ask in asks for pattern in ask.patterns)
    near = str(place.parent)
    return {os.path.relpath(one, place) if one.startswith(near) else one for one in places}, doubt


OUTSIDE = [
    ("echo x > OUT/f", {"out/*"}),
    ("echo x >> OUT/new", {"out/*"}),
    ("echo x >| OUT/f", {"out/*"}),
    ("echo x &> OUT/f", {"out/*"}),
    ("echo x >& OUT/f", {"out/*"}),
    ("ls 2> OUT/f", {"out/*"}),
    ("cat < OUT/f", {"out/*"}),
    ("echo x > link/f", {"out/*"}),
    ("echo x > ../f", {"*"}),
    ("echo x > sub/../../f", {"*"}),
    ("echo x > ~/f", {"home/*"}),
    ('echo x > "$HOME/f"', {"home/*"}),
    ("echo x > ${HOME}/f", {"home/*"}),
    ("echo x > $TMPDIR/f", {"out/*"}),
    ("{ echo a; } > OUT/f", {"out/*"}),
    ("(echo a) > OUT/f", {"out/*"}),
    ("while read x; do :; done < OUT/f", {"out/*"}),
    ("if true; then a; fi > OUT/f", {"out/*"}),
    ("f() { a; } > OUT/f", {"out/*"}),
    ("a && b > OUT/f", {"out/*"}),
    ("cat <<EOF > OUT/f\nx\nEOF", {"out/*"}),
    ("> OUT/f", {"out/*"}),
    ("> OUT/f echo x", {"out/*"}),
    ("exec 3> OUT/f", {"out/*"}),
    ("cat OUT/f", {"out/*"}),
    ("rm -rf OUT", {"out/*"}),
    ("cp a OUT/deep", {"out/deep/*"}),
    ("cp OUT/f ~/x", {"out/*", "home/*"}),
    ("mkdir -p OUT/a/b/c", {"out/a/b/*"}),
    ("touch ../x", {"*"}),
    ("cat link/f", {"out/*"}),
    ("cat link/../x", {"*"}),
    ("cat inner/../../x", {"*"}),
    ("ls ~", {"home/*"}),
    ("ls -d ..", {"*"}),
    ("ls ../*", {"*"}),
    ("ls OUT/*.txt", {"out/*"}),
    ("cat {OUT/f,a}", {"out/*"}),
    ("cat ../{a,b}", {"*"}),
    ("dd if=a of=OUT/f", {"out/*"}),
    ("tar -C OUT -xf a.tar", {"out/*"}),
    ("git -C OUT status", {"out/*"}),
    ("make --directory=OUT", {"out/*"}),
    ("make -C..", {"*"}),
    ("gcc -I../out a.c", {"out/*"}),
    ("curl -d @OUT/f http://a", {"out/*"}),
    ("curl -d@OUT/f http://a", {"out/*"}),
    ("curl -F a=@../out/f http://a", {"out/*"}),
    ("gcc a.c -o OUT/a", {"out/*"}),
    ("gcc a.c -oOUT/a", {"out/*"}),
    ("grep x OUT/f", {"out/*"}),
    ("sed -i s/a/b/ OUT/f", {"out/*"}),
    ("docker run -v OUT:/x img", {"out/*"}),
    ("curl file://OUT/f", {"out/*"}),
    ("sudo rm OUT/f", {"out/*"}),
    ("env A=OUT/f rm OUT/deep", {"out/deep/*"}),
    ("find OUT -exec rm {} +", {"out/*"}),
    ("sh -c 'rm OUT/f'", {"out/*"}),
    ("echo $(cat OUT/f)", {"out/*"}),
    ("echo $(< OUT/f)", {"out/*"}),
    ("diff <(cat OUT/f) a", {"out/*"}),
    ("D=OUT; rm -r $D/deep", {"out/deep/*"}),
    ("for f in OUT/f a; do rm $f; done", {"out/*"}),
    ("for f in OUT/*; do cat $f; done", {"out/*"}),
    ('for f in ../*.py; do cat "$f"; done', {"*"}),
    ("cat $PWD/../f", {"*"}),
    ('cat "${PWD}/link/f"', {"out/*"}),
    ("cd OUT && ls", {"out/*"}),
    ("cd OUT && rm f", {"out/*"}),
    ("cd OUT/deep && rm ../f", {"out/deep/*", "out/*"}),
    ("cd sub; cat ../../x", {"*", "../*"}),
    ("cd sub && cat ../../x", {"*"}),
    ("cd sub; cat ../x", {"*"}),
    ("cd link && rm f", {"out/*"}),
    ("(cd sub); cat ../x", {"*"}),
    ("cd && rm f", {"home/*"}),
    ("sh -c 'cd .. && rm f'", {"*"}),
    ("cat /etc/passwd", {"/etc/*"}),
    ("cat /no/such/file", {"/no/such/*"}),
    ("echo > /dev/tcp/host/80", {"/dev/tcp/host/*"}),
    ("echo > /dev/fd/../../f", {"/proc/*"}),
]


@pytest.mark.parametrize(("command", "expected"), OUTSIDE, ids=[command for command, _ in OUTSIDE])
def test_a_place_outside_is_asked_for(ctx: Any, place: Path, command: str, expected: set[str]) -> None:
    assert asked(command, ctx, place)[0] == expected


INSIDE = [
    "ls > out.txt 2>&1 < sub/f",
    "ls > /dev/null 2> /dev/stderr",
    "cat /dev/fd/3 < /dev/stdin > /dev/tty",
    "rm IN/sub/f sub/../x",
    "cd sub && cat ../x",
    "cd sub/deep && cd .. && cat ../x",
    "cd inner && cat ../x",
    "cat inner/f",
    "(cd sub && cat ../x)",
    "echo OUT ../x /etc",
    "sed -n '/a/,/b/p' f",
    "awk '/OUT/ {print}' f",
    "grep -rn /api/v1 src",
    "curl http://host/../etc/passwd",
    "git log HEAD~1..HEAD -- a",
    "git show HEAD:x",
    "export PATH=OUT:$PATH",
    "/bin/ls; OUT/program",
    "ls *.txt {a,b}.c a{1..3}",
    "cat <<EOF\nOUT/f\nEOF",
    "rm 'a b'",
    "ls # > OUT/f",
    "echo '> OUT/f'",
    "f=a.txt; rm $f ${f}",
    "find . | xargs rm",
]


@pytest.mark.parametrize("command", INSIDE)
def test_a_place_inside_is_not_asked_for(ctx: Any, place: Path, command: str) -> None:
    assert asked(command, ctx, place) == (set(), False)


@pytest.mark.parametrize(
    "command",
    [
        "echo > $X",
        "echo > $(a)",
        "echo > ~other/f",
        "rm $X/f",
        "mv a $1",
        "X=$(a); rm $X",
        "HOME=$(a); rm $HOME/f",
        "read HOME; rm $HOME/f",
        "cd $X && ls",
        "cd - && ls",
        "while a; do cd ..; done",
        "f() { cd ..; }; f; rm x",
        "rm a{/.,x}./b",
        "cp {.,}./a b",
    ],
)
def test_a_place_that_cannot_be_known_is_in_doubt(ctx: Any, place: Path, command: str) -> None:
    assert asked(command, ctx, place)[1]


def test_a_command_asks_once_for_all_its_places(ctx: Any, place: Path) -> None:
    command = f"cp {place}/out/f {place}/home/f"
    outside, ask = bash.permissions({"command": command, "workdir": "../out"}, ctx)
    assert list(outside.patterns) == [f"{place}/out/*", f"{place}/home/*"]
    assert ask.permission == "bash"


def test_paths_are_relative_to_the_workdir(ctx: Any, place: Path) -> None:
    assert asked("cat ../x", ctx, place, workdir="sub") == (set(), False)
    assert asked("cat ../../x", ctx, place, workdir="sub") == ({"*"}, False)


@pytest.mark.parametrize(
    ("permission", "command", "said"),
    [
        ({}, "echo x > {outside}/f", "Permission external_directory on {outside}/* needs a person's answer"),
        ({"bash": {"*": "allow", "rm *": "deny"}}, "ls | 'r'm -rf x", "which prevents you from using this"),
    ],
)
async def test_a_session_refuses_what_the_rules_do_not_allow(
    house: Machine, tmp_path: Path, permission: Any, command: str, said: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (house.folder / "x").touch()
    house.settings(permission=permission)
    call = json.dumps({"command": command.format(outside=outside)})
    house.says(f"== turn\ntool: bash {call}\n\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (answer,) = results(await door.stored(session))
    assert said.format(outside=outside) in answer
    assert (house.folder / "x").exists()
    assert list(outside.iterdir()) == []
