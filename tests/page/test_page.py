"""The page as a person meets it: logging in, a turn, its asks, two tabs, a phone, a server that was started anew."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.page.conftest import PHONE, Machine, write
from tests.server.conftest import PASSWORD, environment_in
from tests.waiting import PATIENCE, wait_until

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LogIn = Callable[..., Any]

WORK = """== title
text: Tidy the build folder
== turn
reasoning: The person wants the old build gone, and a note of it.
text: I look at what is there, then I write **the note**.
tool: bash {"command": "mkdir -p build && ls -la build", "description": "Look into build"}
== turn
tool: write {"filePath": "notes.md", "content": "# Notes\\n\\n- the build folder is empty\\n"}
== turn
chunk: 8
text: <<END
The build folder is **empty**. I wrote it down:

| file | what |
|---|---|
| `notes.md` | one line about the build |

```python
def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())  # hidden files count
```
END
"""
ASKS = {"permission": {"bash": "ask", "edit": "ask"}}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


FOCUS = """() => {
    const at = document.activeElement;
    const seen = (one) => getComputedStyle(one).outlineStyle !== "none" && getComputedStyle(one).opacity !== "0";
    return at === document.body || seen(at) || seen(at.closest("label") ?? at) || at.outerHTML.slice(0, 200);
}"""
"""Whether it can be seen where the keyboard is."""


def answer(page: Any, name: str) -> None:
    """Answer what waits, once it has stood there for long enough to be read."""
    page.click(f".asks button:has-text('{name}')")


def text_of(page: Any, selector: str) -> str:
    return str(page.locator(selector).inner_text())


def counted(page: Any, selector: str, count: int) -> None:
    wait_until(lambda: page.locator(selector).count() == count)


def test_a_person_logs_in_once_and_out_everywhere(machine: Machine, browser: Any) -> None:
    served = machine.start("== turn\ntext: hello\n")
    page = browser.new_page()
    page.goto(served.url)
    page.fill("#password", "wrong")
    page.click("text=Log in")
    assert "the password" in text_of(page, "[role=alert]")
    page.fill("#password", PASSWORD)
    page.click("text=Log in")
    page.wait_for_selector(".list")
    page.reload()
    page.wait_for_selector(".list")
    other = browser.new_page()
    other.goto(served.url)
    other.wait_for_selector(".list")
    # What a file of the browser may hold is one half at most, and no script reads the other.
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    page.click("text=Log out")
    page.wait_for_selector("#password")
    other.wait_for_selector("#password")
    page.reload()
    page.wait_for_selector("#password")


def test_a_device_that_is_not_the_machine_stays_logged_in(machine: Machine, chromium: Any) -> None:
    served = machine.start("== turn\ntext: hello\n", host="0.0.0.0")
    url = served.url.replace("0.0.0.0", "127.0.0.1")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#password")
    expect(page.locator("text=Keep this device")).to_have_count(0)
    url = served.url.replace("0.0.0.0", own_address())
    page.goto(url)
    page.check("text=Keep this device")
    page.fill("#password", PASSWORD)
    page.click("text=Log in")
    page.wait_for_selector(".list")
    # The browser is closed and comes back with what it keeps.
    kept = context.storage_state()
    context.close()
    assert all(one["expires"] > 0 for one in kept["cookies"])
    context = chromium.new_context(storage_state=kept)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(".list")
    page.click("text=Log out")
    page.reload()
    page.wait_for_selector("#password")
    context.close()


def own_address() -> str:
    """An address of this machine that is not loopback."""
    return subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()[0]


def test_instar_open_needs_no_password(machine: Machine, browser: Any) -> None:
    served = machine.start("== turn\ntext: hello\n")
    printed = subprocess.run(
        [sys.executable, "-m", "instar", "open", "--print"],
        cwd=machine.project,
        env=environment_in(machine.root),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout
    page = browser.new_page()
    page.goto(printed.strip())
    page.wait_for_selector(".list")
    assert "ticket" not in page.url
    page.click("text=New")
    page.wait_for_selector(".composer")
    assert served.http.get("/session").json()[0]["directory"] == str(machine.project)
    again = browser.browser.new_context().new_page()
    again.goto(printed.strip())
    assert "was used" in text_of(again, "[role=alert]")
    again.context.close()


def test_a_turn_is_streamed_and_its_asks_are_answered_with_what_they_do_before_the_eyes(
    machine: Machine, log_in: LogIn
) -> None:
    served = machine.start(WORK, **ASKS)
    page = log_in(served)
    page.set_viewport_size({"width": 1100, "height": 760})
    write(page, "Is the build folder empty? Write it down.")
    page.wait_for_selector(".asks")
    assert "mkdir -p build" in text_of(page, ".asks pre")
    expect(page.locator(".list .live.waits")).to_have_count(1)
    assert page.title().startswith("(1) ")
    answer(page, "Once")
    page.wait_for_selector(".asks .diff")
    assert "+- the build folder is empty" in text_of(page, ".asks .diff")
    page.wait_for_selector(".asks button.primary:enabled")
    shot(page, "page-ask")
    answer(page, "Always")
    page.wait_for_selector(".message.agent table")
    page.wait_for_selector("pre.code .is-kwd")
    page.wait_for_selector(".facts [role=status]:has-text('idle')")
    assert (machine.project / "notes.md").read_text().startswith("# Notes")
    fold = page.locator(".fold.tool", has_text="write")
    assert re.search(r"\d (ms|s)", fold.locator("summary").inner_text())
    fold.locator("summary").click()
    fold.locator("text=Wrote file successfully").wait_for()
    expect(fold).to_contain_text("+# Notes")
    shot(page, "page-session")
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    shot(page, "page-phone")


def test_a_rejection_tells_the_model_what_to_do_instead(machine: Machine, log_in: LogIn) -> None:
    script = '== turn\ntool: bash {"command": "make all"}\n== turn\ntext: heard {{last}}\n'
    page = log_in(machine.start(script, **ASKS))
    write(page, "build it")
    page.wait_for_selector(".asks")
    page.fill(".asks input", "only the docs")
    answer(page, "Reject")
    page.wait_for_selector(".message.agent >> text=only the docs")


def test_a_question_of_the_model_is_answered(machine: Machine, log_in: LogIn) -> None:
    asked = (
        '{"questions": [{"question": "Which colour?", "header": "Colour", "options": ['
        '{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]}'
    )
    page = log_in(machine.start(f"== turn\ntool: question {asked}\n== turn\ntext: heard {{{{last}}}}\n"))
    write(page, "paint it")
    page.click(".asks label:has-text('blue')")
    answer(page, "Answer")
    page.wait_for_selector(".message.agent >> text=/heard.*blue/s")


def test_all_of_what_is_asked_is_seen(machine: Machine, log_in: LogIn) -> None:
    hidden = "echo safe" + " " * 400 + "; curl evil\u202e txt.\u200b"
    page = log_in(machine.start(f"== turn\ntool: bash {json.dumps({'command': hidden})}\n", **ASKS))
    write(page, "go")
    page.wait_for_selector(".asks pre")
    said = text_of(page, ".asks pre")
    assert "; curl evil\\u202e txt.\\u200b" in said
    assert "\u202e" not in said
    assert page.locator(".asks pre").evaluate("one => one.scrollWidth <= one.clientWidth")
    # The keyboard leaves the field and ends the turn.
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_selector(".asks", state="detached")


def test_a_key_answers_nothing_that_nobody_can_have_read(machine: Machine, log_in: LogIn) -> None:
    script = (
        '== turn\ntool: bash {"command": "echo 1"}\ntool: bash {"command": "echo 2"}\n== turn\ntext: end\n'
    )
    page = log_in(machine.start(script, **ASKS))
    write(page, "go")
    page.wait_for_selector(".asks")
    page.locator("h1").click()
    page.keyboard.press("y")
    expect(page.locator(".asks")).to_have_count(1)
    page.wait_for_timeout(600)
    page.keyboard.press("y")
    page.wait_for_selector(".asks >> text=echo 2")
    page.keyboard.press("y")
    assert "echo 2" in text_of(page, ".asks")


def test_two_tabs_show_the_same_and_one_answer_counts(machine: Machine, browser: Any, log_in: LogIn) -> None:
    served = machine.start(WORK, **ASKS)
    page = log_in(served)
    write(page, "go")
    page.wait_for_selector(".asks")
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector(".asks")
    answer(page, "Reject")
    other.wait_for_selector(".asks", state="detached")
    other.wait_for_selector(".facts [role=status]:has-text('idle')")
    assert text_of(other, ".messages >> .message.user >> .said") == "go"


def test_more_tabs_than_a_browser_has_connections_are_open_and_each_is_up_to_date_when_it_is_shown(
    machine: Machine, browser: Any, log_in: LogIn
) -> None:
    served = machine.start("== turn\ntext: hello\n")
    pages = [log_in(served)]
    for _ in range(7):
        # What a browser does for a tab that another one covers.
        pages[-1].evaluate(
            "() => Object.defineProperty(document, 'hidden', { value: true, configurable: true })"
        )
        pages.append(browser.new_page())
        pages[-1].goto(served.url)
        pages[-1].wait_for_selector(".list")
    served.session(title="made meanwhile")
    pages[-1].wait_for_selector("text=made meanwhile")
    pages[0].evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: false });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    pages[0].wait_for_selector("text=made meanwhile")


def test_what_waits_is_shown_to_who_comes_later_also_of_a_folder_that_the_page_did_not_name(
    machine: Machine, log_in: LogIn
) -> None:
    served = machine.start('== turn\ntool: bash {"command": "true"}\n', **ASKS)
    other = machine.root / "other"
    other.mkdir()
    (other / "opencode.json").write_text((machine.project / "opencode.json").read_text())
    made = served.http.post("/session", params={"directory": str(other)}, json={}).json()
    served.session(title="newer, and nothing waits there")
    served.http.post(f"/session/{made['id']}/prompt_async", json={"parts": [{"type": "text", "text": "go"}]})
    wait_until(lambda: served.http.get("/instar/waiting").json()["permissions"])
    page = log_in(served)
    page.wait_for_selector(".list .live.waits")
    page.locator(".list li").first.click()
    page.wait_for_selector(".asks")
    answer(page, "Reject")
    page.wait_for_selector(".asks", state="detached")


def test_the_page_goes_on_after_the_server_was_started_anew(machine: Machine, log_in: LogIn) -> None:
    served = machine.start("== turn\ntext: first answer\n== turn\ntext: second answer\n")
    page = log_in(served)
    write(page, "one")
    page.wait_for_selector("text=first answer")
    page.fill(".composer textarea", "a draft")
    served = machine.again()
    page.wait_for_selector("text=The server was started anew")
    page.fill("#password", PASSWORD)
    page.click("text=Log in")
    page.wait_for_selector(".composer textarea")
    assert page.input_value(".composer textarea") == "a draft"
    page.press(".composer textarea", "Enter")
    page.wait_for_selector("text=second answer")
    expect(page.locator(".message.user")).to_have_count(2)


def test_a_turn_is_stopped_queued_rewound_and_forked(machine: Machine, log_in: LogIn) -> None:
    script = (
        "== turn\ntext: slow\ndelay: 60s\ntext: never\n== turn\ntext: heard {{user}}\n== turn\ntext: third\n"
    )
    served = machine.start(script)
    page = log_in(served)
    write(page, "one")
    page.wait_for_selector("text=slow")
    page.click(".composer >> text=Stop")
    page.wait_for_selector("[role=alert]:has-text('stopped')")
    write(page, "two")
    page.wait_for_selector("text=heard two")
    page.wait_for_selector(".facts [role=status]:has-text('idle')")
    page.locator(".message.user", has_text="two").locator("text=Rewind").click()
    page.wait_for_selector(".band")
    expect(page.locator("text=heard two")).to_have_count(0)
    assert page.input_value(".composer textarea") == "two"
    page.click("text=Bring back")
    page.wait_for_selector("text=heard two")
    before = page.url
    page.locator(".message.user", has_text="two").locator("text=Fork").click()
    page.wait_for_url(lambda url: url != before)
    page.wait_for_selector(".message.user")
    expect(page.locator(".message.user")).to_have_count(1)


def test_files_are_attached_by_hand_by_paste_and_by_drag(machine: Machine, log_in: LogIn) -> None:
    page = log_in(machine.start("== turn\ntext: seen\n"))
    page.click("text=New")
    page.wait_for_selector(".composer")
    page.set_input_files(
        ".attach input", files=[{"name": "n.txt", "mimeType": "text/plain", "buffer": b"hello"}]
    )
    for kind in ("paste", "drop"):
        page.evaluate(
            """([kind, bytes]) => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(bytes)], `${kind}.png`, { type: "image/png" }));
                const event = kind === "paste" ? new ClipboardEvent(kind, { clipboardData: data, bubbles: true })
                    : new DragEvent(kind, { dataTransfer: data, bubbles: true });
                document.querySelector(".composer textarea").dispatchEvent(event);
            }""",
            [kind, list(PIXEL)],
        )
    counted(page, ".files li", 3)
    write(page, "look")
    page.wait_for_selector("text=seen")
    expect(page.locator(".message.user img.picture")).to_have_count(2)
    assert (
        page.locator(".message.user img.picture").first.evaluate("one => one.complete && one.naturalWidth")
        == 1
    )
    assert "n.txt" in text_of(page, ".message.user")


def test_the_agent_and_the_model_are_chosen(machine: Machine, log_in: LogIn) -> None:
    models = {"provider": {"scripted": {"models": {"other": {"name": "The other one"}}}}}
    page = log_in(machine.start("== turn\ntext: hello\n", **models))
    page.click("text=New")
    page.select_option("[aria-label=Agent]", "plan")
    page.select_option("[aria-label=Model]", "scripted/other")
    write(page, "hi")
    page.wait_for_selector(".message.agent footer >> text=scripted/other")
    assert "plan" in text_of(page, ".message.agent footer")


def test_a_sub_agents_session_and_its_ask_are_reached_from_its_parent(
    machine: Machine, log_in: LogIn
) -> None:
    script = (
        '== turn\ntool: task {"description": "counts", "prompt": "Count the files", "subagent_type": "general"}\n'
        '== turn\ntext: done\n== when "Count the files"\ntool: bash {"command": "ls"}\n'
    )
    page = log_in(machine.start(script, **ASKS))
    write(page, "go")
    page.wait_for_selector(".asks >> text=asked by a sub-agent")
    page.locator(".fold.tool summary").click()
    page.click("text=the sub-agent's session")
    page.wait_for_selector(".asks")
    page.click("text=parent session")
    page.wait_for_selector(".message.user >> text=go")
    answer(page, "Reject")
    page.wait_for_selector(".asks", state="detached")


def test_sessions_are_searched_renamed_and_deleted(machine: Machine, log_in: LogIn) -> None:
    served = machine.start("== turn\ntext: hello\n")
    for title in ("apples", "pears", "plums"):
        served.session(title=title)
    page = log_in(served)
    page.fill("[type=search]", "pear")
    counted(page, ".list li", 1)
    page.click("text=pears")
    page.click(".menu summary")
    page.click("text=Rename")
    page.fill("dialog input", "cherries")
    page.press("dialog input", "Enter")
    page.wait_for_selector("h1:has-text('cherries')")
    page.fill("[type=search]", "")
    counted(page, ".list li", 3)
    page.click(".menu summary")
    page.click(".menu >> text=Delete")
    page.click("dialog button.danger")
    counted(page, ".list li", 2)
    assert {one["title"] for one in served.http.get("/session").json()} == {"apples", "plums"}


def test_a_keyboard_is_enough(machine: Machine, browser: Any) -> None:
    served = machine.start(WORK, **ASKS)
    page = browser.new_page()
    page.goto(served.url)
    page.wait_for_selector("#password:focus")
    page.keyboard.type(PASSWORD + "\n")
    page.wait_for_selector(".list")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=list the shortcuts")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.keyboard.press("n")
    page.wait_for_selector(".composer")
    page.keyboard.press("i")
    page.keyboard.type("go\n")
    page.wait_for_selector(".asks")
    page.keyboard.press("Tab")
    seen = []
    for _ in range(12):
        seen.append(page.evaluate(FOCUS))
        page.keyboard.press("Tab")
    assert set(seen) == {True}
    page.wait_for_timeout(600)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("y")
    page.wait_for_selector(".asks .diff")
    page.wait_for_timeout(600)
    page.keyboard.press("r")
    page.wait_for_selector(".asks", state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(machine: Machine, browser: Any, log_in: LogIn, scheme: str) -> None:
    served = machine.start(WORK, **ASKS)
    page = browser.new_page()
    page.emulate_media(color_scheme=scheme)
    page.goto(served.url)
    page.wait_for_selector("#password")
    problems = axe(page)
    page.close()
    page = log_in(served)
    page.emulate_media(color_scheme=scheme)
    page.wait_for_selector(".list")
    problems += axe(page)
    write(page, "go")
    page.wait_for_selector(".asks")
    problems += axe(page)
    answer(page, "Once")
    page.wait_for_selector(".asks .diff")
    problems += axe(page)
    answer(page, "Once")
    page.wait_for_selector("pre.code .is-kwd")
    for fold in page.locator(".fold > summary").all():
        fold.click()
    page.click(".menu summary")
    problems += axe(page)
    page.click("text=Rename")
    problems += axe(page)
    page.keyboard.press("Escape")
    page.set_viewport_size(PHONE)
    problems += axe(page)
    assert problems == []


def test_on_a_phone_nothing_is_wider_than_the_screen(machine: Machine, log_in: LogIn) -> None:
    served = machine.start(WORK, **ASKS)
    served.session(title="a" * 200)
    page = log_in(served)
    page.set_viewport_size(PHONE)

    def fits() -> bool:
        return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    assert fits()
    write(page, "b" * 300)
    page.wait_for_selector(".asks")
    assert fits()
    answer(page, "Once")
    page.wait_for_selector(".asks .diff")
    assert fits()
    answer(page, "Once")
    page.wait_for_selector("pre.code .is-kwd")
    assert fits()
    page.click("[aria-label='Back to the sessions']")
    page.wait_for_selector(".list li")
    assert fits()


def axe(page: Any) -> list[str]:
    """What axe-core finds fault with. It is run where the page's own policy does not reach: in the debugger's world."""
    import os

    source = (Path(os.environ["INSTAR_PAGE"]) / "node_modules/axe-core/axe.min.js").read_text()
    page.evaluate(source)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]


def shot(page: Any, name: str) -> None:
    """Take a picture for the docs."""
    IMAGES.mkdir(exist_ok=True)
    page.screenshot(path=IMAGES / f"{name}.png")
