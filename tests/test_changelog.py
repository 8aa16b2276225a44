"""CHANGELOG.md is in the form of Keep a Changelog, and agrees with the tags and the version of the package."""

import re
import subprocess
from datetime import date
from pathlib import Path

from instar import __version__

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CHANGELOG.md").read_text("utf-8")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
VERSIONS = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", TEXT, re.MULTILINE)


def numbers(version: str) -> tuple[int, ...]:
    """The three numbers of a version, whatever stands behind them."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    assert found
    return tuple(int(one or 0) for one in found.groups())


def test_each_heading_is_a_version_with_its_date_or_a_kind_of_change() -> None:
    headings = re.findall(r"^(##+) (.+)$", TEXT, re.MULTILINE)
    assert headings[0] == ("##", "[Unreleased]")
    stated = [("##", f"[{version}] - {day}") for version, day in VERSIONS]
    assert [one for one in headings if one[0] == "##"][1:] == stated
    assert {name for level, name in headings if level != "##"} <= KINDS


def test_versions_and_their_dates_go_down() -> None:
    assert [one for one, _ in VERSIONS] == sorted((one for one, _ in VERSIONS), key=numbers, reverse=True)
    days = [date.fromisoformat(day) for _, day in VERSIONS]
    assert days == sorted(days, reverse=True)


def test_every_tag_has_its_section_and_a_released_package_is_the_newest() -> None:
    """A clone may have no tags: then the package's own version counts, which says so by `dev`."""
    tags = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    stated = {version for version, _ in VERSIONS}
    assert {tag.removeprefix("v") for tag in tags.stdout.split()} <= stated
    newest = VERSIONS[0][0]
    if "dev" in __version__ or numbers(__version__) == (0, 0, 0):
        assert numbers(__version__) <= (*numbers(newest)[:2], numbers(newest)[2] + 1)
    else:
        assert __version__ == newest
