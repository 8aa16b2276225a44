import re

import pytest
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("trace-4711.a:b", True),
        ("a" * 128, True),
        ("short", False),
        ("a" * 129, False),
        ("has a space", False),
        ("-begins-so", False),
        ("\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4", False),
        (None, False),
    ],
)
def test_an_answer_carries_an_id_the_requests_own_if_it_is_plausible(shared, given, taken):
    headers = {} if given is None else {"X-Request-ID": given.encode()}
    answered = shared.http.get("/global/health", headers=headers).headers["x-request-id"]
    assert (answered == given) if taken else re.fullmatch(r"req_[0-9A-Za-z]{26}", answered)


@pytest.mark.slow
def test_a_request_and_what_it_causes_are_logged_under_its_id(serve, tmp_path):
    mark = tmp_path / "project" / "mark"
    script = f'== turn\ntool: bash {{"command": "touch {mark}; sleep 4714"}}\n'
    served = serve("--print-logs", "--log-level", "DEBUG", script=script)
    session_id = served.session(title="named")
    body = {"model": {"providerID": "scripted", "modelID": "test"}, "parts": [{"type": "text", "text": "hi"}]}
    url = f"/session/{session_id}/prompt_async"
    served.http.post(url, json=body, headers={"X-Request-ID": "of-the-prompt"})
    wait_until(mark.exists)
    served.http.get("/session", auth=("opencode", "wrong"), headers={"X-Request-ID": "of-a-stranger"})
    served.http.get("/session?search=hidden", headers={"X-Request-ID": "of-the-query"})
    served.stop()
    lines = served.errors.splitlines()
    prompted = [line for line in lines if line.endswith("request=of-the-prompt")]
    assert any(f"method=POST path={url} status=204" in line for line in prompted)
    # The turn outlives the request that began it.
    assert any(f"turn aborted session={session_id}" in line for line in prompted)
    (stranger,) = (line for line in lines if line.endswith("request=of-a-stranger"))
    assert "status=401" in stranger
    assert "hidden" not in served.errors
    (opened,) = (line for line in lines if "instance opened" in line)
    assert "request=" not in opened
