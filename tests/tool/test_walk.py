import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from instar.tool import walk

MATCHES = [
    ("*.py", "a.py", True),
    ("*.py", "a/b/c.py", True),
    ("*.py", "a.pyc", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/b/a.py", False),
    ("src/*.py", "x/src/a.py", False),
    ("src/**/*.py", "src/a.py", True),
    ("src/**/*.py", "src/x/y/a.py", True),
    ("**/a.py", "a.py", True),
    ("**/x/**", "a/x/b/c", True),
    ("foo/**", "foo", False),
    ("foo/**", "foo/a/b", True),
    ("**", "a/b", True),
    ("/a", "a", True),
    ("/a", "b/a", False),
    ("?", "ab", False),
    ("a?c", "abc", True),
    ("a*b*c", "axbxc", True),
    ("a*b*c", "axbxcx", False),
    ("*a", "ba", True),
    ("[ab].c", "b.c", True),
    ("[a-c]", "b", True),
    ("[!ab].c", "b.c", False),
    ("[^ab].c", "x.c", True),
    ("[]]", "]", True),
    ("[", "[", True),
    ("*.{ts,tsx}", "x/a.tsx", True),
    ("*.{ts,{js,py}}", "a.py", True),
    ("{a,b}/{c,d}", "b/c", True),
    ("{", "{", True),
    ("{a,b", "{a,b", True),
    ("\\*", "*", True),
    ("\\*", "a", False),
    ("\\{a,b\\}", "{a,b}", True),
    ("a.b", "axb", False),
    ("a\nb", "a\nb", True),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES)
def test_a_glob_fits_as_ripgreps_does(pattern: str, path: str, expected: bool) -> None:
    assert walk.Glob(pattern).fits(path) is expected


@pytest.mark.parametrize("pattern", ["", "a//b", "{a,b}" * 9])
def test_a_glob_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"empty part|more than 256"):
        walk.Glob(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"), [("a*" * 40 + "b", "a" * 10_000), ("**/" * 40 + "b", "a/" * 3000 + "c")]
)
def test_no_glob_takes_exponential_time(pattern: str, path: str) -> None:
    started = time.process_time()
    assert walk.Glob(pattern).fits(path) is False
    assert time.process_time() - started < 0.2


IGNORE = """
# a comment
*.log
!keep.log
build/
/top
docs/*.tmp
\\#odd
trailing\x20\x20
**/cache
{
"""


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("a.log", False, True),
        ("x/a.log", False, True),
        ("keep.log", False, False),
        ("build", True, True),
        ("build", False, False),
        ("x/build", True, True),
        ("top", False, True),
        ("x/top", False, False),
        ("docs/a.tmp", False, True),
        ("x/docs/a.tmp", False, False),
        ("#odd", False, True),
        ("# a comment", False, False),
        ("trailing", False, True),
        ("x/cache", True, True),
        ("other", False, False),
    ],
)
def test_an_ignore_file_is_read_as_git_reads_it(path: str, folder: bool, expected: bool) -> None:
    assert walk.ignored(f"/r/{path}", folder, (("/r", walk.parse(IGNORE)),)) is expected


def test_git_agrees_about_what_is_ignored(make: Any, tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": IGNORE,
            "a.log": "",
            "x/b.log": "",
            "keep.log": "",
            "build/o": "",
            "x/build/o": "",
            "top": "",
            "x/top": "",
            "docs/a.tmp": "",
            "x/cache/y": "",
            "sub/.gitignore": "!a.log\n*.txt\n",
            "sub/a.log": "",
            "sub/n.txt": "",
            "n.txt": "",
        },
    )
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    listing = ["git", "-C", tmp_path, "ls-files", "--others", "--exclude-standard"]
    expected = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(str(Path(path).relative_to(tmp_path)) for path in walk.files(str(tmp_path))) == sorted(
        expected
    )


@pytest.mark.parametrize("name", [".gitignore", ".ignore"])
def test_an_ignore_file_that_is_a_pipe_or_device_says_nothing(make: Any, tmp_path: Path, name: str) -> None:
    make(tmp_path, {".git/HEAD": "", "a.txt": "x\n", "sub/b.txt": "x\n"})
    os.mkfifo(tmp_path / name)
    (tmp_path / "sub" / name).symlink_to("/dev/zero")
    assert {Path(path).name for path in walk.files(str(tmp_path))} >= {"a.txt", "b.txt"}
    assert list(walk.search(str(tmp_path / name), re.compile("x"))) == []


def test_it_runs_alone_with_nothing_but_the_standard_library(make: Any, tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": "x\n"})
    program = [sys.executable, "-I", "-S", walk.__file__]
    done = subprocess.run([*program, "files", tmp_path], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/a.txt\0", "")
    done = subprocess.run([*program, "grep", "x", tmp_path], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/a.txt\x001:x\n")
    done = subprocess.run([*program, "grep", "y", tmp_path], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    done = subprocess.run([*program, "grep", "(", tmp_path], capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("regex parse error: ")
