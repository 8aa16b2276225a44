"""The evolution and the overview, as a person meets them: changes appear by themselves, and are decided on."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.page.conftest import PHONE, Machine
from tests.page.test_hostile import PAYLOADS
from tests.plugins.evolve.cli.conftest import BOT, TEST
from tests.server.conftest import Served, environment_in

IMAGES = Path(__file__).parents[2] / "docs" / "images"
EXAMPLES = Path(__file__).parents[2] / "examples"
LogIn = Callable[..., Any]

HOSTILE = "<img src=x onerror=document.title='run'>"
EDIT = "tool: evolve_hook_edit"
EXPECT = '"expect": {"hook": "execute_tool", "field": "ms", "at_most": 9000, "within": {"calls": 20}}'
STORY = f"""== turn
text: I say {HOSTILE} and goodbye.
{EDIT} {{"hook": "bot.sh", "oldString": "Hello!", "newString": "{HOSTILE}"}}
== turn
text: Then I stay polite.
{EDIT} {{"hook": "bot.sh", "oldString": "Hello!", "newString": "Hello there!", {EXPECT}}}
== turn
text: It is done.
== turn
text: Nobody needs to be asked.
{EDIT} {{"hook": "bot.sh", "oldString": ", \\"permission\\": {{\\"arg\\": \\"who\\"}}", "newString": ""}}
== turn
text: It waits for you.
== title
text: Manners {HOSTILE}
"""


def story(hostile: str) -> str:
    """A model that says a text, and writes it into its prompt and its script."""
    prompt = {"prompt": "chat.md", "oldString": "Be kind.", "newString": hostile}
    script = {"hook": "bot.sh", "oldString": "Hello!", "newString": hostile}
    turns = [("evolve_hook_edit", script), ("evolve_prompt_edit", prompt)]
    said = "".join(
        f"== turn\ntext: <<END\n{hostile}\nEND\ntool: {tool} {json.dumps(given)}\n" for tool, given in turns
    )
    title = hostile.split("\n")[0]
    return f"{said}== turn\ntext: It is done.\n== title\ntext: {title}\n"


class Evolving:
    """A server on a workspace whose agent changes itself as it is asked."""

    def __init__(
        self, machine: Machine, hostile: str = HOSTILE, files: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.workspace = machine.root / "ws"
        for name, text in {"hooks/bot.sh": BOT, "tests/bot_test.sh": TEST, **files}.items():
            file = self.workspace / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        (machine.root / "script.txt").write_text(STORY if hostile is HOSTILE else story(hostile))
        environment = {**environment_in(machine.root), "INSTAR_WORKSPACE": str(self.workspace)}
        self.served = machine.served = Served([], machine.project, environment)
        self._session = self.served.session()

    @property
    def bot(self) -> str:
        return (self.workspace / "hooks" / "bot.sh").read_text()

    def ask(self, text: str) -> None:
        """Let the agent work on a prompt to its end."""
        answer = self.served.ask(self._session, text).json()
        assert "error" not in answer["info"], answer


@pytest.fixture
def evolving(machine: Machine) -> Evolving:
    return Evolving(machine)


def order(page: Any, button: str, within: str = ".detail", shows: str = "p") -> str:
    """Press a button, wait until its dialog shows what will change, and confirm; return what it said."""
    page.locator(within).get_by_role("button", name=button, exact=True).first.click()
    page.wait_for_selector(f"dialog {shows}")
    said = str(page.locator("dialog").inner_text())
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog", state="detached")
    return said


def see(page: Any, *outcomes: str) -> None:
    """Wait until the timeline shows these outcomes, newest first."""
    page.wait_for_function(
        "wanted => wanted.every((one, at) => document.querySelectorAll('.timeline .outcome')[at]?.textContent === one)",
        arg=list(outcomes),
    )


def test_a_change_appears_by_itself_with_all_its_evidence_and_is_taken_back(
    evolving: Evolving, log_in: LogIn
) -> None:
    page = log_in(evolving.served, "#/evolution")
    page.wait_for_selector(".timeline")
    evolving.ask("Be polite.")
    see(page, "installed", "refused", "other files")
    page.click(".timeline li:has(.outcome.bad) a")
    page.wait_for_selector(".stage.bad")
    expect(page.locator(".stage.bad .name")).to_have_text("test")
    expect(page.locator("pre.bad")).to_contain_text("it must say Hello")
    expect(page.locator(".diff")).to_contain_text(f'+execute_tool) echo \'{{"result": "{HOSTILE}"}}\'')
    expect(page.locator("blockquote").first).to_have_text("Be polite.")
    expect(page.locator("blockquote").nth(1)).to_have_text(f"I say {HOSTILE} and goodbye.")
    page.click(".timeline li:has(.outcome.good) a")
    page.wait_for_selector(".stage.good:has-text('authority')")
    expect(page.locator("article")).to_contain_text("Of execute_tool, the median time in ms is at most 9000")
    page.click("summary:has-text('What its test printed')")
    expect(page.locator("details[open] pre")).to_contain_text("Hello there!")
    assert re.search(r"100 tokens in and \d+ out, \$0.00", page.locator("article").inner_text())
    assert page.locator("a:has-text('its session')").get_attribute("href").startswith("#/sessions/ses_")
    said = order(page, "Take back", shows=".diff")
    assert '-execute_tool) echo \'{"result": "Hello there!"}\'' in said
    see(page, "takes back version 2", "installed, then taken back", "refused")
    assert evolving.bot == BOT
    expect(page.locator("article")).to_contain_text("It was taken back")
    expect(page.locator("img")).to_have_count(0)
    assert page.title() != "run"


def test_what_would_reach_more_waits_and_a_person_approves_or_rejects_it(
    evolving: Evolving, log_in: LogIn
) -> None:
    page = log_in(evolving.served, "#/evolution")
    page.wait_for_selector(".timeline")
    evolving.ask("Be polite.")
    evolving.ask("Ask nobody.")
    see(page, "waits for you", "installed", "refused")
    assert (
        "its tool bot_greet would run without asking a person first (so far it asks about who)"
        in page.locator(".waiting").inner_text()
    )
    page.click(".timeline li:has-text('waits for you') a")
    page.wait_for_selector("tr.differs")
    assert page.locator("tr.differs td").all_inner_texts() == ["bot_greet (who)", "bot_greet (nothing)"]
    expect(page.locator(".stage.warn .name")).to_have_text("authority")
    page.click("text=All of the evolution")
    assert "would run without asking a person first" in order(page, "Approve", ".waiting", ".diff")
    see(page, "installed", "approved", "waited for you", "installed")
    assert '"permission"' not in evolving.bot
    expect(page.locator(".learned")).to_contain_text("the tool bot_greet asks about nothing now")
    order(page, "Take the newest change back", shows=".diff")
    see(page, "takes back version 3", "installed, then taken back")
    assert '"permission"' in evolving.bot


def test_what_waits_is_out_of_date_once_its_file_changed_and_its_page_tells_the_decision(
    evolving: Evolving, log_in: LogIn
) -> None:
    evolving.ask("Be polite.")
    evolving.ask("Ask nobody.")
    page = log_in(evolving.served, "#/evolution")
    waiting = page.locator(".waiting")
    waiting.wait_for()
    # What was asked is read from its session.
    waiting.get_by_text("Ask nobody.").wait_for()
    page.click(".timeline li:has(.outcome.good) a")
    said = order(page, "Take back", shows=".diff")
    assert "A change of hooks/bot.sh waits for you. It is out of date then" in said
    page.wait_for_selector("text=which ended its probation")
    page.click(".timeline li:has-text('takes back version 2') a")
    page.locator("article.change").get_by_text("It takes back version 2: a person asked for it.").wait_for()
    page.click("text=All of the evolution")
    page.wait_for_selector("text=The last one ended: version 2 of hooks/bot.sh was taken back.")
    waiting.get_by_text("Out of date: hooks/bot.sh changed since.").wait_for()
    assert waiting.get_by_role("button", name="Approve").is_disabled()
    waiting.get_by_role("button", name="Reject").click()
    page.fill("dialog input", "it must ask")
    page.press("dialog input", "Enter")
    see(page, "rejected", "takes back version 2", "waited for you")
    page.click(".timeline li:has-text('rejected') a")
    page.wait_for_selector(".lead:has-text('It waited, and was rejected')")
    expect(page.locator(".lead")).to_contain_text("it must ask")
    page.evaluate("document.querySelector('.detail').scrollTop = 500")
    page.click(".timeline li:has(.outcome.bad):has-text('refused') a")
    page.wait_for_selector(".detail h1:focus")
    assert page.evaluate("document.querySelector('.detail').scrollTop") == 0
    page.click("a:has-text('its session')")
    page.wait_for_selector(".tool.waits")
    expect(page.locator(".tool.error")).to_have_count(1)  # the refused one


def test_a_rejection_says_why_and_a_pin_keeps_the_agent_from_a_file(
    evolving: Evolving, log_in: LogIn
) -> None:
    evolving.ask("Be polite.")
    evolving.ask("Ask nobody.")
    page = log_in(evolving.served, "#/evolution")
    page.locator(".waiting").get_by_role("button", name="Reject").click()
    page.fill("dialog input", "it must ask")
    page.press("dialog input", "Enter")
    see(page, "rejected", "waited for you")
    expect(page.locator(".timeline")).to_contain_text("it must ask")
    expect(page.locator(".waiting")).to_have_count(0)
    page.click(".timeline li:has(.outcome.good) a")
    order(page, "Pin")
    see(page, "pinned")
    order(page, "Unpin")
    see(page, "unpinned", "pinned")


def test_the_timeline_is_filtered_versions_are_compared_and_a_line_says_why_it_is_there(
    evolving: Evolving, log_in: LogIn
) -> None:
    evolving.ask("Be polite.")
    page = log_in(evolving.served, "#/evolution")
    see(page, "installed", "refused", "other files")
    page.select_option("label:has-text('Outcome') select", label="refused")
    see(page, "refused")
    expect(page.locator(".timeline li")).to_have_count(1)
    page.select_option("label:has-text('Outcome') select", label="all")
    page.select_option("label:has-text('Session') select", label=f"Manners {HOSTILE}")
    expect(page.locator(".timeline li")).to_have_count(2)
    page.select_option("label:has-text('Script or prompt') select", label="tests/bot_test.sh")
    page.wait_for_selector("text=No change is like that.")
    page.click("text=Compare two versions")
    page.wait_for_selector(".detail .diff")
    expect(page.locator(".detail .diff")).to_contain_text("Hello there!")
    page.click("text=All of the evolution")
    page.click("text=hooks/bot.sh line by line")
    page.click(".source a:has-text('version 2')")
    why = page.locator(".why")
    why.wait_for()
    expect(why).to_contain_text("The agent wrote it")
    expect(why).to_contain_text("Be polite.")
    page.evaluate("location.hash = '#/evolution/file/100%'")
    page.wait_for_selector("[role=alert]:has-text('there is no 100%')")


def test_what_was_changed_behind_the_gate_is_told_and_a_freeze_stands_in_the_timeline(
    machine: Machine, evolving: Evolving, log_in: LogIn
) -> None:
    evolving.ask("Be polite.")
    page = log_in(evolving.served, "#/evolution")
    see(page, "installed", "refused", "other files")
    (evolving.workspace / "hooks" / "bot.sh").write_text(f"{evolving.bot}# by hand\n")
    evolving.ask("Ask nobody.")
    expect(page.locator("main")).to_contain_text("hooks/bot.sh was changed, behind the gate")
    words = ["evolve", "--workspace", str(evolving.workspace), "freeze", "--reason", "until the release"]
    environment = environment_in(machine.root)
    subprocess.run([sys.executable, "-m", "instar", *words], env=environment, check=True, capture_output=True)
    page.reload()
    frozen = page.locator(".timeline li", has=page.locator(".outcome", has_text="frozen"))
    expect(frozen).to_contain_text("until the release")
    expect(page.locator("main")).to_contain_text("changes are frozen: until the release")


def test_without_a_workspace_it_says_how_to_have_one(machine: Machine, log_in: LogIn) -> None:
    page = log_in(machine.start("== turn\ntext: hello\n"), "#/evolution")
    page.wait_for_selector("[role=alert]:has-text('evolve is not in use in this directory')")
    expect(page.locator("main")).to_contain_text("instar init FOLDER")


def test_nothing_that_a_candidate_its_test_or_a_name_holds_runs_or_leaves_the_page(
    machine: Machine, log_in: LogIn, browser: Any
) -> None:
    every = "\n".join(PAYLOADS).replace("\0", " ")
    files = {f"hooks/{one.replace('/', '∕')[:60]}": "x" for one in PAYLOADS[::5] if "\0" not in one}
    shown = TEST.replace("#!/bin/sh\n", "#!/bin/sh\ncat prompts/chat.md\n")
    files |= {"tests/bot_test.sh": shown, "prompts/chat.md": "Be kind.\n"}
    evolving = Evolving(machine, every.replace("{", "(").replace("}", ")"), files)
    asked: list[str] = []
    browser.on("request", lambda request: asked.append(request.url))
    browser.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    reports: list[str] = []
    browser.on("console", lambda message: reports.append(message.text))
    page = log_in(evolving.served, "#/evolution")
    evolving.ask(every)
    see(page, "installed", "refused", "other files")
    changes = [one.get_attribute("href") for one in page.locator(".timeline li a").all()]
    for view in (
        "#/evolution",
        *changes,
        "#/evolution/compare",
        "#/evolution/file/prompts/chat.md/3",
        "#/overview",
    ):
        page.evaluate("view => { location.hash = view }", view)
        page.wait_for_selector({"#/overview": ".bars"}.get(view, ".detail h1"))
        page.evaluate(
            "document.querySelectorAll('details:not([open]) > summary').forEach((one) => one.click())"
        )
        assert page.evaluate(FOUND) == {"ran": None, "tags": [], "attributes": [], "scripts": 1}
    page.goto(evolving.served.url + "/" + str(changes[0]))
    page.wait_for_selector("details:has-text('What its test printed')")
    expect(page.locator(".diff")).to_contain_text("javascript:")
    assert [url for url in asked if not url.startswith(f"{evolving.served.url}/")] == []
    assert [text for text in reports if "Content Security Policy" in text] == []


FOUND = """() => {
    const tags = "img, iframe, object, embed, video, audio, base, style, math, marquee, template";
    const names = [...document.querySelectorAll("*")].flatMap((one) => one.getAttributeNames());
    for (const one of document.querySelectorAll("*"))
        for (const kind of ["mouseover", "focus", "load", "error"]) one.dispatchEvent(new Event(kind));
    return {
        ran: window.ran ?? null,
        tags: [...document.querySelectorAll(tags)].map((one) => one.outerHTML),
        attributes: names.filter((name) => /^on|^style$|^srcdoc$/.test(name)),
        scripts: document.scripts.length,
    };
}"""
"""What of a page's making could run, or load something."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, {"width": 1200, "height": 850}], ids=["phone", "desk"])
def test_it_fits_a_phone_and_a_screen_reader_in_light_and_dark(
    evolving: Evolving, log_in: LogIn, size: dict[str, int], scheme: str
) -> None:
    evolving.ask("Be polite.")
    evolving.ask("Ask nobody.")
    page = log_in(evolving.served, "#/evolution")
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    see(page, "waits for you")
    change = page.locator(".timeline li:has(.outcome.good) a").get_attribute("href")
    for view in "#/evolution", change, "#/evolution/compare", "#/evolution/file/hooks/bot.sh/9", "#/overview":
        page.evaluate("view => { location.hash = view }", view)
        page.wait_for_selector({"#/overview": ".bars"}.get(view, ".detail h1"))
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
        assert violations(page) == []


def violations(page: Any) -> list[str]:
    """What axe finds wrong with the page as it stands."""
    axe = Path(os.environ["INSTAR_PAGE"]) / "node_modules" / "axe-core" / "axe.min.js"
    page.evaluate(axe.read_text())
    return list(
        page.evaluate("async () => (await axe.run()).violations.map(one => one.id + one.nodes[0].html)")
    )


def test_the_keyboard_alone_goes_through_the_timeline_and_takes_a_change_back(
    evolving: Evolving, log_in: LogIn
) -> None:
    evolving.ask("Be polite.")
    page = log_in(evolving.served)
    page.keyboard.press("g")
    page.keyboard.press("e")
    see(page, "installed", "refused")
    page.focus(".timeline li a")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take back").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .diff")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert "Hello there!" in evolving.bot
    page.get_by_role("button", name="Take back").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Take back").focus()
    page.keyboard.press("Enter")
    see(page, "takes back version 2")
    assert evolving.bot == BOT


def test_the_overview_tells_what_is_used_and_stops_everything(evolving: Evolving, log_in: LogIn) -> None:
    evolving.ask("Be polite.")
    page = log_in(evolving.served, "#/overview")
    page.wait_for_selector(".bars >> text=evolve_hook_edit")
    page.select_option("label:has-text('By') select", label="Session")
    page.wait_for_selector(f".bars >> text=Manners {HOSTILE}")
    page.wait_for_selector("text=A turn may take 40 steps")
    page.wait_for_selector("text=Every 30 min 0 s; next in")
    page.click("text=Beat now")
    page.wait_for_selector("[aria-label='Past heartbeats'] td:has-text('skipped')")
    page.click("text=Look for what is wrong")
    page.wait_for_selector(".checks li:has-text('evolve')")
    page.click("text=Stop everything")
    page.locator("dialog").get_by_role("button", name="Stop everything").click()
    page.wait_for_selector("text=Stopped: nothing begins by itself.")
    assert evolving.served.http.get("/instar/stop").json()["halted"] > 0
    page.click("text=Let it go on")
    page.wait_for_selector("text=Stopped: nothing begins by itself.", state="detached")
    assert evolving.served.http.get("/instar/stop").json()["halted"] == 0


def test_what_steers_is_accepted_with_its_diff_before_the_eyes(machine: Machine, log_in: LogIn) -> None:
    served = machine.start("== turn\ntext: hello\n", permission={"bash": "allow"})
    page = log_in(served, "#/overview")
    page.wait_for_selector("text=You have not trusted this folder")
    page.wait_for_selector(".diff .added:has-text('permission')")
    page.click("text=Accept what is shown")
    page.wait_for_selector("text=Nothing waits to be accepted.")
    assert served.http.get("/instar/trust").json()["trusted"] is True


@pytest.fixture
def example(machine: Machine) -> Served:
    """A server on a copy of examples/hello, with the models of `make demo-page`."""
    shutil.copytree(
        EXAMPLES / "hello", machine.root / "workspace", ignore=shutil.ignore_patterns("__pycache__")
    )
    environment = {**environment_in(machine.root), "INSTAR_WORKSPACE": str(machine.root / "workspace")}
    del environment["INSTAR_SCRIPT"]
    machine.served = Served([], machine.project, environment)
    return machine.served


def test_the_pictures_of_the_docs_are_made(example: Served, log_in: LogIn) -> None:
    page = log_in(example, "#/evolution")
    page.set_viewport_size({"width": 1200, "height": 800})
    session = example.session()
    body = {"model": {"providerID": "scripted", "modelID": "demo"}}
    prompt = "Write a note about what an instar is, and count the words in it."
    example.http.post(
        f"/session/{session}/message", json={**body, "parts": [{"type": "text", "text": prompt}]}
    )
    see(page, "other files", "installed", "refused")
    page.wait_for_selector(".detail .bars tr:has-text('hello_note_count'):has-text('1')")
    page.wait_for_selector(".notices p", state="detached")
    page.screenshot(path=IMAGES / "page-evolution.png")
    page.click(".timeline li:has(.outcome.good) a")
    page.wait_for_selector(".stage.good:has-text('authority')")
    page.screenshot(path=IMAGES / "page-change.png")
    page.evaluate("location.hash = '#/overview'")
    page.wait_for_selector(".bars tr:has-text('hello_note_count')")
    page.wait_for_selector("text=A turn may take 40 steps")
    page.screenshot(path=IMAGES / "page-overview.png")
