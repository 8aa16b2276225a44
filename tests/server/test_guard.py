import base64

import httpx2
import pytest


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
        (None, 401),
    ],
)
def test_only_the_password_lets_in(shared, authorization, status):
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    answer = httpx2.get(f"{shared.url}/global/health", headers=headers)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) is (status == 401)


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
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),
        ("same-site", "no-cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
def test_what_a_page_of_another_site_embeds_is_refused(shared, site, mode, status):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    assert shared.http.get("/global/health", headers=headers).status_code == status


def test_without_auth_everybody_is_let_in_but_other_sites_are_not(serve):
    served = serve("--no-auth")
    assert httpx2.get(f"{served.url}/session").status_code == 200
    assert httpx2.get(f"{served.url}/session", headers={"Origin": "http://evil.example"}).status_code == 403
    served.stop()
    assert "no password" in served.errors
