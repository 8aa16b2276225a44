import base64
import os
import time
from collections.abc import Iterator

import httpx2
import pytest
from tests.server.conformance import problems_of
from tests.server.conftest import PASSWORD, Served

from instar.server import access
from instar.settings.paths import Paths


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (basic("opencode:correct horse"), 200),
        (basic("instar:correct horse"), 200),
        (basic("opencode:wrong"), 401),
        (basic("root:correct horse"), 401),
        (basic("opencode:"), 401),
        (basic("opencode"), 401),
        ("Basic !!!", 401),
        ("Basic", 401),
        ("Basic \u00e9", 401),
        ("Bearer correct horse", 401),
        (basic("opencode:correct horse").replace("Basic", "Bearer"), 401),
        (None, 401),
    ],
)
def test_only_the_password_lets_in(shared, authorization, status):
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    # Each case from an address of its own: one that sends many wrong ones waits for its answers.
    transport = httpx2.HTTPTransport(local_address=f"127.0.0.{10 + len(str(authorization))}")
    with httpx2.Client(transport=transport) as client:
        answer = client.get(f"{shared.url}/global/health", headers=headers)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) is (status == 401)


@pytest.mark.slow
def test_wrong_passwords_of_an_address_are_slowed_down_and_a_right_one_is_not(shared):
    wrong, right = basic("opencode:wrong"), basic("opencode:correct horse")

    def seconds(address, authorization, status):
        began = time.monotonic()
        transport = httpx2.HTTPTransport(local_address=address)
        with httpx2.Client(transport=transport, headers={"Authorization": authorization}) as client:
            assert client.get(f"{shared.url}/global/health").status_code == status
        return time.monotonic() - began

    for _ in range(5):
        seconds("127.0.0.2", wrong, 401)
    assert seconds("127.0.0.2", wrong, 401) >= 1
    assert seconds("127.0.0.2", wrong, 401) >= 2
    assert seconds("127.0.0.2", right, 200) < 1
    assert seconds("127.0.0.3", wrong, 401) < 1


def test_wrong_passwords_wait_up_to_a_bound_and_are_forgotten_after_a_minute():
    now = [0.0]
    kept = access.WrongPasswords(lambda: now[0])
    assert [kept.delay("a") for _ in range(12)] == [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 5]
    now[0] = 60.0
    assert kept.delay("a") == 0
    for number in range(5000):
        kept.delay(str(number))
    assert len(kept._found) <= 1024


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:1234", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
        ("evil.example:x", 403),
        ("10.0.0.1", 403),
        ("[::1].evil.example", 403),
        ("[::1]evil.example:80", 403),
        ("[127.0.0.1].evil.example", 403),
        ("", 403),
    ],
)
def test_only_our_own_host_names_are_answered(shared, host, status):
    assert shared.http.get("/global/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://127.0.0.1:1", 403),
        ("chrome-extension://127.0.0.1:{port}", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_requests_from_other_sites_are_refused(shared, origin, status):
    port = shared.url.rpartition(":")[2]
    answer = shared.http.get("/global/health", headers={"Origin": origin.format(port=port)})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("method", "site", "mode", "status"),
    [
        ("GET", "cross-site", "no-cors", 403),
        ("GET", "same-site", "no-cors", 403),
        ("GET", "cross-site", "navigate", 200),
        ("POST", "cross-site", "navigate", 403),
        ("POST", "same-site", "navigate", 403),
        ("GET", "same-origin", "cors", 200),
        ("POST", "same-origin", "cors", 200),
        ("GET", "none", "navigate", 200),
    ],
)
def test_what_a_page_of_another_site_embeds_or_sends_is_refused(shared, method, site, mode, status):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    path = "/global/health" if method == "GET" else "/log"
    body = None if method == "GET" else {"service": "t", "level": "info", "message": "m"}
    assert shared.http.request(method, path, headers=headers, json=body).status_code == status


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Iterator[Served]:
    """A server with two other sites whose pages may ask."""
    root = tmp_path_factory.mktemp("named")
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "INSTAR_SERVER_PASSWORD": PASSWORD}
    served = Served(["--cors", "https://App.example/", "--cors", "http://localhost:5173"], root, environment)
    yield served
    served.stop()


@pytest.mark.parametrize("origin", ["https://app.example", "http://localhost:5173"])
def test_a_page_of_a_named_site_may_ask_and_read_with_the_password(named, origin):
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    answer = named.http.get("/global/health", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert "X-Next-Cursor" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["vary"] == "Origin"
    # Without the password it may read that there is one.
    refused = httpx2.get(f"{named.url}/global/health", headers=headers)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin)


@pytest.mark.parametrize(
    "origin", ["http://app.example", "https://app.example:8443", "https://evil.example", "null"]
)
def test_other_sites_get_no_such_headers_where_some_are_named(named, origin):
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for answer in (
        named.http.get("/global/health", headers={"Origin": origin}),
        httpx2.options(f"{named.url}/session", headers=preflight),
    ):
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_of_a_named_site_is_answered_without_a_password_and_changes_nothing(named):
    headers = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-opencode-directory",
    }
    answer = httpx2.options(f"{named.url}/session", headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-headers"] == headers["Access-Control-Request-Headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert (
        httpx2.options(f"{named.url}/session", headers={**headers, "Host": "evil.example"}).status_code == 403
    )
    assert named.http.get("/session").json() == []


def test_a_preflight_is_answered_for_nobody_where_no_site_is_named(shared):
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    answer = httpx2.options(f"{shared.url}/session", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.slow
def test_a_password_in_a_url_is_not_taken(shared):
    token = base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
    for query in (
        {"auth_token": token},
        {"auth_token": PASSWORD},
        {"token": PASSWORD},
        {"password": PASSWORD},
    ):
        for path in ("/global/health", "/event", "/global/event", "/api/event", "/instar/event", "/doc"):
            assert httpx2.get(f"{shared.url}{path}", params=query).status_code == 401


def test_the_newer_routes_refuse_in_their_own_form(shared):
    answer = httpx2.get(f"{shared.url}/api/event")
    assert problems_of("GET", "/api/event", answer.status_code, answer.json()) == []


@pytest.mark.slow
def test_without_auth_everybody_is_let_in_but_other_sites_are_not(serve):
    served = serve("--no-auth")
    assert httpx2.get(f"{served.url}/session").status_code == 200
    assert httpx2.get(f"{served.url}/session", headers={"Origin": "http://evil.example"}).status_code == 403
    served.stop()
    assert "no password" in served.errors
    assert "the programs that the model starts reach it too" in served.errors


@pytest.mark.slow
def test_a_name_of_the_persons_own_logs_in_too_as_in_opencode(serve):
    served = serve(environment={"OPENCODE_SERVER_USERNAME": "ada"})
    for name, status in ("ada", 200), ("opencode", 200), ("bob", 401):
        answer = httpx2.get(f"{served.url}/global/health", auth=(name, PASSWORD))
        assert answer.status_code == status


@pytest.mark.slow
def test_a_program_of_the_models_does_not_come_by_the_password(serve, clean_environment, tmp_path):
    served = serve()
    kept = Paths.from_environment(clean_environment).password_file
    served.session()  # the data folder is there
    kept.write_text(PASSWORD)
    look = f"env; cat {kept}; tr '\\\\0' ' ' </proc/{served.process.pid}/environ; echo looked"
    (tmp_path / "script.txt").write_text(
        f'== turn\ntool: bash {{"command": "{look}"}}\n== turn\ntext: done\n'
    )
    session_id = served.session(
        title="t", permission=[{"permission": "*", "pattern": "*", "action": "allow"}]
    )
    served.ask(session_id)
    said = served.http.get(f"/session/{session_id}/message").text
    assert "looked\\n" in said
    assert PASSWORD not in said
    assert "SERVER_PASSWORD" not in said
