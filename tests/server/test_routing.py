"""From a path and a method to an operation, over HTTP."""

import pytest

QUIETLY = {"model": {"providerID": "scripted", "modelID": "test"}, "noReply": True}
"""A prompt that nobody answers."""


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/session", "GET, HEAD, POST"),
        ("TRACE", "/vcs/status", "GET, HEAD"),
        ("DELETE", "/session/status", "GET, HEAD"),
        ("PATCH", "/project/current", "GET, HEAD"),
        ("PUT", "/session/ses_1", "DELETE, GET, HEAD, PATCH"),
        ("TRACE", "/instar/evolve/pin", "DELETE, GET, HEAD, POST"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_refused_and_those_are_named_that_it_has(
    shared, method, path, allowed
):
    answer = shared.http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["name"] == "BadRequest"


def test_what_is_only_looked_at_may_be_asked_for_without_its_body(shared):
    assert shared.http.request("HEAD", "/session").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", "/mcp/a%2Fb/connect", 404, "a/b"),
        ("PATCH", "/project/x%2fy%252F", 404, "x/y%2F"),
        ("DELETE", "/api/permission/saved/a%2Fb", 204, ""),
    ],
)
def test_an_encoded_slash_is_part_of_a_name(shared, method, path, status, said):
    answer = shared.http.request(method, path, json={})
    assert (answer.status_code, said in answer.text) == (status, True)


def test_null_in_place_of_a_field_is_that_field_left_out(shared):
    made = shared.http.post("/session", json={"title": None, "metadata": {"kept": None}}).json()
    assert made["title"].startswith("New session")
    assert made["metadata"] == {"kept": None}
    assert None not in made.values()
    config = {"type": "local", "command": ["false"], "enabled": False, "environment": None, "timeout": None}
    added = shared.http.post("/mcp", json={"name": "off", "config": config})
    assert added.json() == {"off": {"status": "disabled"}}


def test_what_no_type_knows_of_a_body_is_read_over(shared):
    rule = {"permission": "bash", "pattern": "*", "action": "ask"}
    session = shared.session()
    given = {"permission": [{**rule, "odd": 1}], "odd": 1}
    changed = shared.http.patch(f"/session/{session}", json=given).json()
    assert (changed["permission"], "odd" in changed) == ([rule], False)
    path = f"/session/{session}/message"
    parts = [{"type": "text", "text": "hi", "odd": 1, "time": {"start": 1, "odd": 1}}]
    part = shared.http.post(path, json={**QUIETLY, "parts": parts}).json()["parts"][0]
    assert (part["time"], "odd" in part) == ({"start": 1}, False)
    place = f"{path}/{part['messageID']}/part/{part['id']}"
    assert shared.http.patch(place, json={**part, "text": "ha", "odd": 1}).json() == {**part, "text": "ha"}
    assert shared.http.get(path).json()[0]["parts"] == [{**part, "text": "ha"}]


def test_null_is_no_number_of_a_query(shared):
    answer = shared.http.get("/session", params={"limit": "null"})
    assert (answer.status_code, "leave it out" in answer.text) == (400, True)


def test_where_a_request_of_the_newer_kind_is_about_has_fields(shared):
    answer = shared.http.get("/api/agent", params={"location": "x"})
    assert (answer.status_code, answer.json()["_tag"]) == (400, "InvalidRequestError")


def test_a_time_before_1970_is_no_parts_time(shared):
    path = f"/session/{shared.session()}/message"

    def ends(time):
        parts = [{"type": "text", "text": "hi", "time": {"start": 0, "end": time}}]
        return shared.http.post(path, json={**QUIETLY, "parts": parts}).status_code

    assert (ends(-1), shared.http.get(path).json()) == (400, [])
    assert ends(1) == 200
