"""The text cannot lie: every command and example in README and docs is run.

In a Markdown file, a ``console`` block is a session: each line that starts with ``$ `` is run by bash in one
fresh folder per file, with a home of its own, and what follows it is what it must print (``…`` stands for
anything, also over several lines). ``# exit N`` at the end of a command states another exit code than 0. A block
with ``file=NAME`` in its info string is written to that file first. ``json`` and ``jsonc`` blocks must
parse, ``python`` blocks must compile. Shell commands in any other kind of block are an error.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import somebody

from instar.wire.document import parse_jsonc

ROOT = Path(__file__).parent.parent
TOP = ("README.md", "AGENTS.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
# The picture of the rooms is held against the code by tests/test_floors.py.
KINDS = {"console", "json", "jsonc", "python", "text", "markdown", "sql", "mermaid", ""}


class Block(NamedTuple):
    page: Path
    line: int
    kind: str
    file: str | None
    text: str


def blocks(page: Path) -> Iterator[Block]:
    pattern = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    text = page.read_text("utf-8")
    for match in pattern.finditer(text):
        kind, _, rest = match[1].strip().partition(" ")
        named = re.search(r"file=(\S+)", rest)
        yield Block(page, text[: match.start()].count("\n") + 1, kind, (named and named[1]) or None, match[2])


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block with what it must print."""
    for piece in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, _, expected = piece.partition("\n")
        while first.endswith("\\"):
            more, _, expected = expected.partition("\n")
            first = f"{first}\n{more}"
        yield first, expected.strip("\n")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    unknown = [f"{name(page)}:{block.line} {block.kind}" for block in blocks(page) if block.kind not in KINDS]
    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_json_parses_and_python_compiles(page: Path) -> None:
    for block in blocks(page):
        where = f"{name(page)}:{block.line}"
        if block.kind in ("json", "jsonc"):
            parse_jsonc(block.text, where)
        elif block.kind == "python":
            compile(block.text, where, "exec")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_a_heading_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", prose(page))
    missing = [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor not in anchors(page.parent / target if target else page)
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_link_that_is_named_after_a_page_leads_to_it(page: Path) -> None:
    links = re.findall(r"\[([\w-]+\.md)\]\(([^)#\s]*)", prose(page))
    assert [target for text, target in links if Path(target).name != text] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    """The compatibility page's are held by test_compatibility.py."""
    named = re.findall(r"`(tests/[\w./-]+)`", prose(page))
    missing = [target for target in named if target != "tests/hello_test.py" and not (ROOT / target).exists()]
    assert not missing


WORDS = 2500
"""What a reader takes in at one sitting. Tables that are made from the code do not count."""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=name)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    generated = r"<!--[^>]*\bbegin\b.*?<!--[^>]*\bend\b[^>]*-->|<!-- (\w+) -->.*?<!-- /\1 -->"
    words = len(re.sub(generated, "", page.read_text("utf-8"), flags=re.DOTALL).split())
    assert words <= WORDS, f"{words} words"


def test_no_two_pages_have_one_name() -> None:
    """A message or a command names a page without its folder."""
    names = [page.stem for page in (ROOT / "docs").rglob("*.md") if page.stem != "index"]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("section", ["tutorials", "guides", "concepts", "reference"])
def test_each_page_stands_in_the_index_of_its_section(section: str) -> None:
    index = ROOT / "docs" / section / "index.md"
    linked = {index.parent / target for target in re.findall(r"\]\(([^)#:]+\.md)", index.read_text("utf-8"))}
    assert set(index.parent.rglob("*.md")) - {index} <= linked


def prose(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links: small letters, hyphens for blanks, no punctuation."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


# One page needs PostgreSQL, which `make test-cluster` installs.
HAS_POSTGRESQL = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
RUN = [
    page
    for page in PAGES
    if "```console" in page.read_text("utf-8") and (HAS_POSTGRESQL or page.name != "cluster.md")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_commands_print_what_the_page_says(
    page: Path, tmp_path: Path, clean_environment: Mapping[str, str], request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{clean_environment['PATH']}"
    environment = {**clean_environment, "PATH": path}
    as_whom = somebody.command if page.name == "cluster.md" else lambda *words: words
    if page.name == "cluster.md":
        for one in (folder, Path(clean_environment["HOME"])):
            somebody.own(one)
        request.addfinalizer(lambda: end_cluster(folder, environment))
    for block in blocks(page):
        if block.file is not None:
            target = folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, "utf-8")
            if block.text.startswith("#!"):
                target.chmod(0o755)
        elif block.kind == "console":
            for command, expected in commands(block):
                run(
                    f"{name(page)}:{block.line}",
                    command,
                    expected,
                    folder,
                    environment,
                    as_whom,
                )


def end_cluster(folder: Path, environment: Mapping[str, str]) -> None:
    """End what a page left running that stopped half way."""
    end = "pkill -F serve.pid -f 'serve --workers'; instar db stop"
    words = somebody.command("bash", "-c", end)
    subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=60)


def run(
    where: str,
    command: str,
    expected: str,
    folder: Path,
    environment: Mapping[str, str],
    as_whom: Callable[..., Sequence[str]],
) -> None:
    """Run one command; `make` and `git clone` of the project itself are CI's to run, their targets are checked here."""
    if command.startswith("git clone"):
        return
    if command.startswith("make"):
        makefile = (ROOT / "Makefile").read_text("utf-8")
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in command.split()[1:]), where
        return
    stated = re.search(r"\s+# exit (\d+)$", command)
    code = int(stated[1]) if stated else 0
    done = subprocess.run(
        as_whom("bash", "-c", command),
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    printed = (done.stdout + done.stderr).strip("\n")
    assert done.returncode == code, f"{where}: {command}\n{printed}"
    if expected:
        pattern = ".*?".join(re.escape(piece) for piece in expected.split("…"))
        assert re.fullmatch(pattern, printed, re.DOTALL), (
            f"{where}: {command}\nprinted:\n{printed}\nexpected:\n{expected}"
        )
