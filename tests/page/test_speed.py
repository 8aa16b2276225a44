"""The page stays quick: long sessions are scrolled, fast streams drawn, within the 16 ms that a frame has."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.page.conftest import Machine, write
from tests.server.conftest import environment_in
from tests.waiting import PATIENCE, wait_until

MESSAGES = 3000
FRAME = 1 / 60


class Work:
    """How much of its processor a page has used, which another program's load does not change."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._page = page
        page.evaluate("""() => {
            window.frames_drawn = 0;
            const count = () => { window.frames_drawn += 1; requestAnimationFrame(count); };
            requestAnimationFrame(count);
        }""")
        self._since = self._now()

    def _now(self) -> tuple[float, int]:
        found = self._session.send("Performance.getMetrics")["metrics"]
        used = next(one["value"] for one in found if one["name"] == "TaskDuration")
        return used, self._page.evaluate("window.frames_drawn")

    def per_frame(self) -> float:
        """Seconds of work for each frame since this was made."""
        used, frames = self._now()
        return (used - self._since[0]) / max(1, frames - self._since[1])


def test_three_thousand_messages_scroll_smoothly(machine: Machine, log_in: Callable[..., Any]) -> None:
    served = machine.start("== turn\ntext: hello\n")
    session_id = imported(machine)
    page = log_in(served, f"#/sessions/{session_id}")
    page.wait_for_selector(f"text=answer {MESSAGES - 1}")
    box = page.locator(".messages")
    work = Work(page)

    def count() -> int:
        box.evaluate("one => one.scrollBy(0, -4000)")
        return int(page.evaluate("() => document.querySelectorAll('.message').length"))

    shown = count()
    while shown < MESSAGES:
        before = shown
        shown = wait_until(lambda before=before: (now := count()) > before and now)
    assert page.locator(".message").first.text_content().startswith("question 0")
    assert work.per_frame() < FRAME
    # All of it is there; now it is only moved.
    work = Work(page)
    for _ in range(60):
        box.evaluate("one => one.scrollBy(0, 1500)")
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert work.per_frame() < FRAME


def test_two_hundred_deltas_a_second_are_drawn_in_time(machine: Machine, log_in: Callable[..., Any]) -> None:
    words = " ".join(
        f"word{number} **bold** `code`" + ("\n\n" if number % 40 == 39 else "") for number in range(500)
    )
    page = log_in(machine.start(f"== turn\nchunk: 13\npace: 5ms\ntext: <<END\n{words}\nEND\n"))
    page.click("text=New")
    page.wait_for_selector(".composer")
    work = Work(page)
    write(page, "go")
    page.wait_for_selector("text=word499")
    assert work.per_frame() < FRAME


def imported(machine: Machine) -> str:
    """A session of 3,000 messages, brought in from a file."""
    session = "ses_000000000001aaaaaaaaaaaaaa"
    messages = []
    for number in range(MESSAGES):
        identity = f"msg_{number:012x}aaaaaaaaaaaaaa"
        about = {"id": identity, "sessionID": session, "time": {"created": number + 1}, "agent": "build"}
        model = {"providerID": "scripted", "modelID": "test"}
        if number % 2:
            tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
            about |= {
                "role": "assistant",
                "parentID": f"msg_{number - 1:012x}aaaaaaaaaaaaaa",
                "mode": "build",
                **model,
            }
            about |= {"path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": tokens, "finish": "stop"}
            about["time"] = {"created": number + 1, "completed": number + 2}
            text = f"answer {number}\n\n- one\n- two\n\n```python\nprint({number})\n```"
        else:
            about |= {"role": "user", "model": model}
            text = f"question {number} of a long session"
        part = {"id": f"prt_{number:012x}aaaaaaaaaaaaaa", "sessionID": session, "messageID": identity}
        messages.append({"info": about, "parts": [part | {"type": "text", "text": text}]})
    info = {
        "id": session,
        "slug": "long",
        "projectID": "global",
        "directory": str(machine.project),
        "title": "long",
    }
    info |= {"version": "1", "time": {"created": 1, "updated": 1}}
    file = machine.root / "long.json"
    file.write_text(json.dumps({"info": info, "messages": messages}))
    done = subprocess.run(
        [sys.executable, "-m", "instar", "import", str(file)],
        cwd=machine.project,
        env=environment_in(machine.root),
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
    )
    assert done.returncode == 0, done.stderr
    assert machine.served is not None
    return str(machine.served.http.get("/session").json()[0]["id"])
