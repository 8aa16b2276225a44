"""The site of `make docs`, opened from the file system: INSTAR_SITE names the folder of what builds it."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / os.environ.get("INSTAR_SITE", ".venv/docs")

BACKGROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(11, 12, 15)"}


def build(checkout: Path, scratch: Path) -> "subprocess.CompletedProcess[str]":
    """Run what `make docs` runs."""
    command = [TOOLS / "bin/python", checkout / "docs/build.py", "--packages", TOOLS / "npm"]
    where = ["--source", scratch / "source", "--site", scratch / "site"]
    return subprocess.run([*command, *where], capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("built")
    done = build(ROOT, scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    return scratch / "site"


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    """A tab without a network. What is asked of it, what fails and what a script complains of fails the test."""
    page = browser.new_page()
    wrong: list[str] = []
    inside = ("file:", "data:", "blob:")
    page.on("request", lambda one: None if one.url.startswith(inside) else wrong.append(f"asked {one.url}"))
    # What a page that is left still loads is aborted.
    failed = lambda one: None if one.failure == "net::ERR_ABORTED" else wrong.append(f"failed {one.url}")  # noqa: E731
    page.on("requestfailed", failed)
    page.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
    yield page
    assert wrong == []


def test_a_word_is_searched_and_a_result_followed_without_a_server(reader: Any, site: Path) -> None:
    reader.goto((site / "index.html").as_uri())
    reader.get_by_role("button", name="Search").click()
    reader.locator("input[aria-label='Search']").fill("heartbeat")
    reader.get_by_role("option", name="The heartbeat", exact=True).first.click()
    expect(reader.locator("h1")).to_contain_text("The heartbeat")
    assert "/guides/heartbeat.html" in reader.url


@pytest.mark.parametrize("name", ["architecture", "gate", "turn", "trust", "sandbox"])
def test_a_concept_shows_its_picture(reader: Any, site: Path, name: str) -> None:
    reader.goto((site / f"concepts/{name}.html").as_uri())
    drawn = reader.locator("div.mermaid, article img[src$='.svg']").first
    expect(drawn).to_be_visible()
    assert drawn.bounding_box()["height"] > 100


@pytest.mark.parametrize(("scheme", "button"), [("light", "Dark"), ("dark", "Light")])
def test_it_is_light_or_dark_as_the_machine_is_and_a_button_changes_that(
    reader: Any, site: Path, scheme: str, button: str
) -> None:
    body = reader.locator("body")
    reader.emulate_media(color_scheme=scheme)
    reader.goto((site / "index.html").as_uri())
    expect(body).to_have_css("background-color", BACKGROUND[scheme])
    reader.locator(f"label[title='{button}']").click()
    expect(body).to_have_css("background-color", BACKGROUND[button.lower()])


def test_each_page_opens_and_what_it_is_made_of_is_there(reader: Any, site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        loaded = re.findall(r'(?:src|href)="([^"#?]+)', page.read_text("utf-8"))
        here = [one for one in loaded if not re.match(r"\w+:|//", one)]
        if page.name != "404.html":  # a server shows it below any address: its own are absolute
            assert [one for one in here if not (page.parent / one).exists()] == [], page
    for page in pages[:: len(pages) // 12]:
        if page.name != "404.html":
            reader.goto(page.as_uri())


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("guides/stop.md", "\n[nowhere](nowhere.md)\n", "page does not exist"),
        ("guides/stop.md", "\n[nowhere](models.md#no-such-heading)\n", "anchor does not exist"),
        ("guides/stray.md", "# Stray\n", "docs/guides/index.md has no link to guides/stray.md"),
    ],
)
def test_a_link_to_nowhere_and_a_page_in_no_index_end_the_build(
    tmp_path: Path, page: str, text: str, said: str
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "docs", checkout / "docs")
    for name in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(name, checkout)
    with (checkout / "docs" / page).open("a") as file:
        file.write(text)
    done = build(checkout, tmp_path)
    assert done.returncode == 1
    assert said in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert not (tmp_path / "site").exists()
