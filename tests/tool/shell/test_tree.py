"""The reading against bash itself: what bash starts must have been seen, or the reading be in doubt."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from instar.settings.permission import DOUBT
from instar.tool.command import judge

RUNS = r"""
command_not_found_handle() { printf '\001%s\002%s' "$N" "${1//$'\n'/_}" >&9; return $((RANDOM % 2)); }
exec 9>&1
PATH=/nonexistent N=0
while IFS= read -r -d '' line <&8; do
  ( eval "$line" ) >/dev/null 2>/dev/null </dev/null
  N=$((N+1))
done
wait
"""
SNIPPETS = [
    "aa x",
    "bb 'y'",
    'cc "$(aa)"',
    "if aa; then bb; fi",
    "{ aa; }",
    "(bb)",
    "cat <<E\naa $(bb)\nE",
    "cat <<'E'\n$(aa)\nE",
    "x=$(aa) bb",
    "for x in 1 2; do aa; done",
    "[[ a = b ]]",
    "echo `bb`",
    "case a in a) bb;; esac",
    "aa >f",
    "! bb",
    "aa <<<b",
    "diff <(aa) <(bb)",
    "f() { aa; }; f",
    "eval 'bb c'",
    "while bb; do break; done",
    "aa \\\n b",
    "# bb",
    "a[0]=1",
    "echo ${x:-$(aa)}",
    'echo "${x:-`bb`}"',
    "((1+1))",
    "echo $((1+$(aa)))",
    "x=(a $(bb))",
]
JOINTS = ["; ", "\n", " && ", " | ", " || ", " & ", " |\n", " &&\n", " "]
PIECES = [*"  \n;&|(){}`'\"\\#<>*?~!-1[]=$", "aa", "&&", "||", "$(", "\\\n", "${x:-", "<<E\n", "\nE\n", ">f"]
PIECES += [
    "2>&1",
    "&>f",
    ">|",
    " #",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "x)",
    ";;",
    "esac",
    "((",
    "))",
    "$((",
]
PIECES += ["x=", "x=(", "f()", "$'", "{a,b}", "<(", "time ", "coproc ", "eval ", "env ", "\t", "a[1]=", "\\ "]


def mangled(chance: random.Random) -> str:
    """Snippets in a row, with a few pieces put in or taken out."""
    more = (chance.choice(JOINTS) + chance.choice(SNIPPETS) for _ in range(chance.randint(0, 2)))
    text = list(chance.choice(SNIPPETS) + "".join(more))
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(text) + 1)
        text[at : at + chance.randint(0, 1)] = [chance.choice(PIECES)] if chance.random() < 0.6 else []
    return "".join(text)


def started(lines: list[str], folder: Path) -> list[list[str]]:
    """The commands that bash looks for when it runs each line; it finds none of them."""
    script = folder / "lines"
    script.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    (folder / "in").mkdir()
    given = os.open(script, os.O_RDONLY)
    try:
        run = f"exec 8<&{given}\n{RUNS}"
        argv = ["bash", "--norc", "-c", run]
        done = subprocess.run(argv, stdout=-1, stderr=-3, cwd=folder / "in", pass_fds=[given], timeout=60)
    finally:
        os.close(given)
    found: list[list[str]] = [[] for _ in lines]
    for part in filter(None, done.stdout.split(b"\1")):
        number, _, name = part.partition(b"\2")
        found[int(number)].append(name.decode())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_bash_starts_nothing_that_the_rules_did_not_see(seed: int, tmp_path: Path) -> None:
    assert shutil.which("bash"), "bash is needed"
    chance = random.Random(seed)
    lines = [*SNIPPETS, *(mangled(chance) for _ in range(400))]
    sure = 0
    for line, names in zip(lines, started(lines, tmp_path), strict=True):
        seen = judge(line, Path("/"), {}).patterns
        if any(pattern.startswith(DOUBT) for pattern in seen):
            continue
        sure += bool(names)
        for name in filter(None, names):
            # A name with a line break is shown with `_` for it: bash writes line by line.
            assert any(f"{pattern} ".replace("\n", "_").startswith(f"{name} ") for pattern in seen), line
    assert sure > 100
