"""Build the site from the pages: `make docs`. It works from the file system, and asks no other address.

The pages are copied beside those of the project's root that they link to (AGENTS.md, CHANGELOG.md, …). The links in
each folder's index.md give the navigation its order. What zensical would fetch is put into the site: the script that
draws the pictures (mermaid), and the one by which the search runs without a server (iframe-worker).
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
SECTIONS: Final = ("tutorials", "guides", "concepts", "reference")
PROJECT: Final = (
    "AGENTS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "evobench/README.md",
)
"""Files outside of docs/ that pages may link to; they become pages in the folder project/."""
SCRIPTS: Final = {
    "mermaid.js": ("mermaid", "package/dist/mermaid.min.js"),
    "iframe-worker.js": ("iframe-worker", "package/shim/index.js"),
}
"""Each script of the site: its package of npm, and its place in that."""
SHIM: Final = "https://unpkg.com/iframe-worker/shim"
LINK: Final = re.compile(r"(?<!!)\[([^]]*)\]\(([^)#:\s]+\.md)(#[^)]*)?\)")

FENCE: Final = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
"""A block that tests/test_docs.py writes to a file; the site shows that file's name above it."""


class Mistake(Exception):
    """What is wrong with the pages, in a sentence."""


def links(page: Path) -> Iterator[tuple[str, Path]]:
    """Yield the pages that an index links to: the heading above each, and its file."""
    heading = ""
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        for found in LINK.finditer(line):
            yield heading, (page.parent / found[2]).resolve()


def navigation(pages: Path) -> list[dict[str, Any]]:
    """Return the navigation: the start, then each section with its groups. Raises `Mistake` for a page in none."""
    nav: list[dict[str, Any]] = [{"Start": "index.md"}]
    for section in SECTIONS:
        inside: list[Any] = [f"{section}/index.md"]
        groups: dict[str, list[str]] = {}
        for heading, page in links(pages / section / "index.md"):
            if page.is_relative_to(pages / section):
                groups.setdefault(heading, []).append(page.relative_to(pages).as_posix())
        listed = {page for group in groups.values() for page in group}
        there = {page.relative_to(pages).as_posix() for page in (pages / section).rglob("*.md")}
        if missing := sorted(there - listed - {f"{section}/index.md"}):
            raise Mistake(f"docs/{section}/index.md has no link to {', '.join(missing)}")
        inside += groups.pop("", [])
        inside += [{heading: group} for heading, group in groups.items()]
        nav.append({section.capitalize(): inside})
    others = [page.relative_to(pages).as_posix() for page in sorted((pages / "project").glob("*.md"))]
    return [*nav, {"Questions": "faq.md"}, {"Project": others}]


def toml(value: Any) -> str:
    """Return lists, tables and texts in TOML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def gather(source: Path) -> None:
    """Copy the pages into a folder, with those of the project that they link to, and write the settings beside them."""
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"))
    (pages / "project").mkdir()
    moved = {}
    for name in PROJECT:
        if (ROOT / name).exists():
            moved[ROOT / name] = (
                pages / "project" / f"{name.replace('/', '-').removesuffix('.md').lower()}.md"
            )
    for original, page in moved.items():
        page.write_text(original.read_text("utf-8"), "utf-8")
    origins = {page: ROOT / "docs" / page.relative_to(pages) for page in pages.rglob("*.md")}
    origins |= {page: original for original, page in moved.items()}
    for page, original in origins.items():
        page.write_text(relinked(page, original, moved, pages), "utf-8")
    settings = (ROOT / "docs/zensical.toml").read_text("utf-8")
    settings = settings.replace("[project]\n", f"[project]\nnav = {toml(navigation(pages))}\n", 1)
    (source / "zensical.toml").write_text(settings, "utf-8")


def relinked(page: Path, original: Path, moved: dict[Path, Path], pages: Path) -> str:
    """Return a page's text with the links of the original that lead to what was moved, or come from it, mended."""

    def mended(link: re.Match[str]) -> str:
        target = (original.parent / link[2]).resolve()
        if target in moved:
            target = moved[target]
        elif target.is_relative_to(ROOT / "docs"):
            target = pages / target.relative_to(ROOT / "docs")
        else:
            return link[1]
        return f"[{link[1]}]({relative(target, page.parent)}{link[3] or ''})"

    return FENCE.sub(r'```\1 title="\2"', LINK.sub(mended, original.read_text("utf-8")))


def relative(target: Path, folder: Path) -> str:
    """Return the way from a folder to a file, as a link has it."""
    above = next(one for one in (folder, *folder.parents) if target.is_relative_to(one))
    return "../" * len(folder.relative_to(above).parts) + target.relative_to(above).as_posix()


def complete(site: Path, packages: Path) -> None:
    """Put the scripts into the site, and let each page that needs one load it from there."""
    for script, (package, place) in SCRIPTS.items():
        with tarfile.open(next(packages.glob(f"{package}-*.tgz"))) as archive:
            member = archive.extractfile(place)
            assert member is not None
            (site / "assets" / script).write_bytes(member.read())
    for page in site.rglob("*.html"):
        assets = relative(site / "assets", page.parent)
        text = page.read_text("utf-8").replace(SHIM, f"{assets}/iframe-worker.js")
        if 'class="mermaid"' in text:
            text = text.replace("</head>", f'<script src="{assets}/mermaid.js"></script></head>', 1)
        page.write_text(text, "utf-8")


def main() -> int:
    """Build the site; 1 where a link leads nowhere or a page stands in no index."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--packages", type=Path, required=True, help="the folder of npm's packages")
    arguments.add_argument(
        "--source", type=Path, required=True, help="the folder in which the pages are gathered"
    )
    arguments.add_argument("--site", type=Path, default=ROOT / "site", help="the folder of the site")
    given = arguments.parse_args()
    given.source = given.source.resolve()
    try:
        gather(given.source)
    except Mistake as mistake:
        print(f"docs: {mistake}", file=sys.stderr)
        return 1
    # zensical ends a strict build that found something with a traceback below what it found.
    build = [sys.executable, "-c", "import sys; sys.tracebacklimit = 0; from zensical.main import cli; cli()"]
    if subprocess.run([*build, "build", "--clean", "--strict"], cwd=given.source, check=False).returncode:
        return 1
    complete(given.source / "site", given.packages)
    shutil.rmtree(given.site, ignore_errors=True)
    shutil.move(given.source / "site", given.site)
    print(f"{given.site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
