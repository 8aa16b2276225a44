"""The page without a browser: its files, how a browser logs in, what a stolen half of a login is good for."""

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.datastructures import Headers
from tests.server.conftest import PASSWORD, Served, environment_in

from instar.server import access, browser
from instar.server.browser import LIFE, PageLogins
from instar.testing import FakeClock

PAGE = Path(browser.__file__).parent / "page"


class Page:
    """What a page of the server sends, as its browser does. `origin` is the page's."""

    def __init__(self, served: Served, origin: str = "") -> None:
        self.origin = origin or served.url
        self.http = httpx2.Client(base_url=served.url, headers={"Origin": self.origin})

    def log_in(self, **given: str) -> httpx2.Response:
        answer = self.http.post("/page/login", json=given or {"password": PASSWORD})
        if answer.status_code == 200:
            self.http.headers["X-Instar-Key"] = answer.json()["key"]
        return answer


@pytest.fixture
def pages() -> Iterator[Callable[..., Page]]:
    """Makes pages, and closes them."""
    with contextlib.ExitStack() as stack:

        def make(served: Served, origin: str = "") -> Page:
            made = Page(served, origin)
            stack.callback(made.http.close)
            return made

        yield make


@pytest.fixture
def page(shared: Served, pages: Callable[..., Page]) -> Page:
    return pages(shared)


def test_the_page_is_there_without_a_password_and_lets_no_other_script_run(shared: Served) -> None:
    answer = httpx2.get(shared.url)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"):
        assert f"{rule};" in policy
    assert "unsafe" not in policy
    assert (answer.headers["x-content-type-options"], answer.headers["referrer-policy"]) == (
        "nosniff",
        "no-referrer",
    )
    assert "<style" not in answer.text
    assert re.findall(r"<script(?! type=\"module\" src=)", answer.text) == []
    assert httpx2.get(f"{shared.url}/session").status_code == 401


def test_every_file_that_the_page_names_is_there(shared: Served) -> None:
    seen, wanted = set(), {"/"}
    while wanted:
        path = wanted.pop()
        seen.add(path)
        answer = httpx2.get(shared.url + path)
        assert answer.status_code == 200, path
        assert answer.headers["content-security-policy"]
        folder = path.rpartition("/")[0]
        for named in re.findall(r'(?:from|import|href|src)[ =(]*"([./][^"]*\.(?:js|css|svg))"', answer.text):
            wanted |= {os.path.normpath(named if named[0] == "/" else f"{folder}/{named}")} - seen
    assert "/page/vendor/preact.js" in seen


def test_the_whole_page_is_small() -> None:
    files = [path for path in PAGE.rglob("*") if path.suffix in (".html", ".js", ".css", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 150_000


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/no.js",
        "/page/../access.py",
        "/page/..%2faccess.py",
        "/page/vendor",
        "/page/README.md",
    ],
)
def test_nothing_but_the_pages_files_is_served(shared: Served, path: str) -> None:
    answer = httpx2.get(shared.url + path)
    assert answer.status_code in (401, 404)
    assert "import" not in answer.text


def test_a_file_is_sent_again_only_if_it_changed(shared: Served) -> None:
    first = httpx2.get(f"{shared.url}/page/main.js", headers={"Accept-Encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    again = httpx2.get(f"{shared.url}/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert httpx2.get(f"{shared.url}/page/main.js", headers={"Accept-Encoding": ""}).content == first.content
    assert httpx2.put(f"{shared.url}/page/main.js", content=b"x").status_code == 405


def test_the_password_logs_a_browser_in_and_a_logout_ends_that(page: Page) -> None:
    answer = page.log_in()
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert "secure" not in cookie
    assert answer.headers["cache-control"] == "no-store"
    assert page.http.get("/session").status_code == 200
    assert page.http.post("/page/logout").status_code == 204
    assert page.http.get("/session").status_code == 401


def test_a_person_with_a_page_may_give_orders(page: Page) -> None:
    page.log_in()
    assert page.http.patch("/config", json={}).status_code == 200


def test_each_half_of_a_login_alone_is_good_for_nothing(shared: Served, page: Page) -> None:
    page.log_in()
    key = page.http.headers["X-Instar-Key"]
    (cookie,) = page.http.cookies.jar
    half = {"Cookie": f"{cookie.name}={cookie.value}"}
    for headers in (
        half,
        {"X-Instar-Key": key},
        half | {"X-Instar-Key": "guess"},
        {"Cookie": f"{cookie.name}="},
    ):
        assert httpx2.get(f"{shared.url}/session", headers=headers).status_code == 401
        assert httpx2.post(f"{shared.url}/page/key", headers=headers).status_code == 401
    both = half | {"X-Instar-Key": key}
    assert httpx2.get(f"{shared.url}/session", headers=both).status_code == 200
    tossed = both | {"Cookie": f"{cookie.name}=other; {half['Cookie']}; {cookie.name}=x"}
    assert httpx2.get(f"{shared.url}/session", headers=tossed).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 401),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 401),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_a_login_is_bound_to_the_page_that_has_it(page: Page, headers: dict[str, str], status: int) -> None:
    page.log_in()
    del page.http.headers["Origin"]
    assert page.http.get("/session", headers=headers).status_code == status


def test_a_login_under_one_name_of_the_server_is_none_under_another(shared: Served, page: Page) -> None:
    page.log_in()
    headers = {"Host": page.origin.removeprefix("http://").replace("127.0.0.1", "localhost")}
    assert (
        page.http.get("/session", headers=headers | {"Origin": f"http://{headers['Host']}"}).status_code
        == 401
    )


def test_a_named_sites_page_logs_nobody_in_by_the_cookie(pages, serve) -> None:
    served = serve("--cors", "https://good.example")
    page = pages(served)
    page.log_in()
    there = {"Origin": "https://good.example"}
    assert page.http.get("/session", headers=there).status_code == 401
    assert page.http.get("/session", headers=there, auth=("opencode", PASSWORD)).status_code == 200


@pytest.mark.slow
def test_behind_a_proxy_that_has_a_name_of_its_own_the_page_logs_in(serve, pages) -> None:
    page = pages(serve("--cors", "https://agent.example"), "https://agent.example")
    assert "secure" in page.log_in().headers["set-cookie"].lower()
    cookie = page.http.headers["Cookie"] = page.log_in().headers["set-cookie"].partition(";")[0]
    assert cookie
    assert page.http.get("/session").status_code == 200
    assert page.http.get("/session", headers={"Origin": "https://other.example"}).status_code == 403


def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(pages, shared: Served) -> None:
    page = pages(shared, shared.url.replace("http:", "https:"))
    assert "secure" in page.log_in().headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "given", [{"password": "wrong"}, {"password": ""}, {"ticket": "x"}, {"ticket": "../x"}, {"x": "y"}]
)
def test_what_is_no_password_logs_nobody_in(shared: Served, given: dict[str, str]) -> None:
    transport = httpx2.HTTPTransport(local_address=f"127.0.1.{len(str(given))}")
    with httpx2.Client(transport=transport, headers={"Origin": shared.url}) as client:
        answer = client.post(f"{shared.url}/page/login", json=given)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        # The page asks by itself: a browser must not put a dialog of its own over it.
        assert "www-authenticate" not in answer.headers
        assert client.post(f"{shared.url}/page/login", content=b"[]" * 9000).status_code == 401


@pytest.mark.slow
def test_the_answer_to_a_wrong_password_says_where_the_right_one_is(pages, serve, tmp_path: Path) -> None:
    served = serve(environment={"INSTAR_SERVER_PASSWORD": ""})
    answer = pages(served).log_in(password="wrong")
    assert answer.json()["data"]["message"].endswith("server-password")
    state = httpx2.get(f"{served.url}/page/login").json()
    assert state["needed"]
    assert state["place"].endswith("server-password")
    assert state["place"] in httpx2.get(f"{served.url}/session").text


def test_wrong_passwords_of_a_page_are_slowed_down(shared: Served, monkeypatch) -> None:
    waited: list[float] = []

    async def scene() -> None:
        made = browser.Browser(lambda given: False, access.WrongPasswords().delay)
        transport = httpx2.ASGITransport(made)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://h", headers={"Origin": "http://h"}
        ) as one:
            for _ in range(7):
                assert (await one.post("/page/login", json={"password": "x"})).status_code == 401

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(browser.asyncio, "sleep", wait)
    asyncio.run(scene())
    assert waited == [0, 0, 0, 0, 0, 1, 2]


def test_a_program_that_is_no_page_logs_in_with_each_request(shared: Served) -> None:
    assert httpx2.post(f"{shared.url}/page/login", json={"password": PASSWORD}).status_code == 403


def test_without_a_password_nobody_logs_in_and_nobody_is_a_person(pages, serve) -> None:
    served = serve("--no-auth")
    page = pages(served)
    assert page.http.get("/page/login").json()["needed"] is False
    assert page.log_in().status_code == 400
    assert page.http.get("/session").status_code == 200
    assert page.http.patch("/config", json={}).status_code == 403


def headers_of(origin: str, cookie: str, key: str) -> dict[str, str]:
    host = origin.partition("://")[2]
    return {"host": host, "origin": origin, "cookie": f"instar-1={cookie}", "x-instar-key": key}


def admits(logins: PageLogins, cookie: str, key: str) -> bool:
    return logins.admits(Headers(headers_of("http://h:1", cookie, key)))


def test_a_login_ends_a_week_after_its_last_use_and_a_key_soon_after_its_page() -> None:
    clock = FakeClock()
    logins = PageLogins(clock)
    cookie, key = logins.begin(Headers(headers_of("http://h:1", "", "")))
    clock.advance(LIFE - 1)
    second = logins.another_key(Headers(headers_of("http://h:1", cookie, key)))
    assert second
    clock.advance(2)
    assert not admits(logins, cookie, key)
    assert admits(logins, cookie, second)
    logins.leave(Headers(headers_of("http://h:1", cookie, second)))
    clock.advance(19)
    third = logins.another_key(Headers(headers_of("http://h:1", cookie, second)))
    clock.advance(2)
    assert third
    assert not admits(logins, cookie, second)
    assert admits(logins, cookie, third)
    clock.advance(LIFE + 1)
    assert not admits(logins, cookie, third)


def test_neither_half_is_kept_as_it_is() -> None:
    logins = PageLogins()
    cookie, key = logins.begin(Headers(headers_of("http://h:1", "", "")))
    kept = repr(vars(logins))
    assert cookie not in kept
    assert key not in kept


def opened(served: Served, root: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "instar", "open", *more],
        cwd=served.directory,
        env={**environment_in(root), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def ticket_in(url: str) -> str:
    return parse_qs(urlsplit(url.strip()).fragment)["ticket"][0]


@pytest.mark.slow
def test_instar_open_makes_an_address_that_logs_one_browser_in_once(pages, serve, tmp_path: Path) -> None:
    data = {"INSTAR_DATA": str(tmp_path / "data")}
    served = serve(environment=data)
    # It needs no password of the server's: this one is in the server's environment alone.
    printed = opened(served, tmp_path, "--print", INSTAR_SERVER_PASSWORD="").stdout
    assert printed.startswith(f"{served.url}/#")
    page = pages(served)
    assert page.log_in(ticket=ticket_in(printed)).status_code == 200
    assert page.http.get("/session").status_code == 200
    assert pages(served).log_in(ticket=ticket_in(printed)).status_code == 401
    old = ticket_in(opened(served, tmp_path, "--print").stdout)
    os.utime(tmp_path / "data/page-tickets" / hashlib.sha256(old.encode()).hexdigest(), (1, 1))
    assert pages(served).log_in(ticket=old).status_code == 401


@pytest.mark.slow
def test_instar_open_starts_the_browser_with_an_address_that_tells_nobody_the_ticket(
    pages, serve, tmp_path: Path
) -> None:
    data = {"INSTAR_DATA": str(tmp_path / "data")}
    served = serve(environment=data)
    told = tmp_path / "told"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {told}\n')
    program.chmod(0o700)
    assert opened(served, tmp_path, BROWSER=str(program)).returncode == 0
    file = Path(urlsplit(told.read_text().strip()).path)
    assert "ticket" not in told.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    address = re.search(r"url=([^\"]+)", file.read_text())
    assert address is not None
    assert pages(served).log_in(ticket=ticket_in(address[1].replace("&amp;", "&"))).status_code == 200


def test_instar_open_starts_a_server_where_none_runs(tmp_path: Path) -> None:
    # A record of a server that was killed is none: whatever took its port is not opened.
    (tmp_path / "data/servers").mkdir(parents=True)
    for pid in (os.getpid(), 2**22 + 1):
        record = {"url": "http://127.0.0.1:9", "directory": "/", "pid": pid, "began": "1"}
        (tmp_path / f"data/servers/{pid}.json").write_text(json.dumps(record))
    (tmp_path / "script.txt").write_text("== turn\ntext: hello\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "instar", "open", "--print"],
        cwd=tmp_path,
        env=environment_in(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline()
        url = address.partition("/#")[0]
        assert url.startswith("http://127.0.0.1:")
        with httpx2.Client(base_url=url, headers={"Origin": url}) as client:
            assert client.post("/page/login", json={"ticket": ticket_in(address)}).status_code == 200
    finally:
        process.terminate()
        more, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert more == "", "the address is all that a script reads"
    assert f"instar: a server listens on {url}\n" in said
    assert len(list((tmp_path / "data/servers").iterdir())) == 2
