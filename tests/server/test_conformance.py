"""The whole API, walked with a live server: every operation of opencode's document, and all that stand in `/doc`."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from tests.server.conformance import OPENCODE, REFUSING, Described, Document
from tests.server.conftest import Served
from tests.server.prepared import prepare
from tests.server.walk import DOING, LOOKING, Step, step
from tests.waiting import wait_until

UNLIKE = {
    "global.event": "a real opencode's first event has no directory either",
    "v2.session.events": "the document describes a frame's lines; a real opencode's have no event line either",
}
"""Streams whose first event is not held against opencode's document, with the reason."""
STREAMS = ("event.subscribe", "global.event", "v2.event.subscribe")
ADDED = {**{name: {"lastEventID"} for name in STREAMS}, "v2.fs.read": {"path"}}
"""Parameters that instar has beside opencode's."""
PREFIXES = {
    "sessionID": "ses",
    "messageID": "msg",
    "partID": "prt",
    "requestID": "per",
    "permissionID": "per",
    "ptyID": "pty",
}
"""What an id begins with, by its name in a path."""
PATCH = """\
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
"""


class House:
    """A server with a prepared project, and what is known of it by name."""

    def __init__(self, served: Served, root: Path) -> None:
        self.served = served
        self.own = Document(served.http.get("/doc").json())
        self.known = {"project": str(root / "project"), "root": str(root), "patch": PATCH}

    def fill(self, value: Any) -> Any:
        """`value` with what is known in place of ``$name``."""
        if isinstance(value, str):
            return re.sub(r"\$(\w+)", lambda found: self.known.get(found[1], f"no-{found[1]}"), value)
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value

    def document(self, name: str) -> Document:
        return OPENCODE if name in OPENCODE.operations else self.own

    def described(self, name: str) -> Described:
        return self.document(name).operations[name]

    def address(self, name: str, path: dict[str, str]) -> str:
        parts = {
            key: quote(self.fill(value), safe="/" if key == "rest" else "") for key, value in path.items()
        }
        template = self.described(name).path.replace("*", "{rest}")
        return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], template)

    def ask(self, one: Step) -> list[str]:
        """Carry a step out; what is wrong with the answer."""
        answer, body = self.answer(one)
        problems = self.problems(one.id, answer, body, one.status or self.described(one.id).success)
        if one.keep and not problems:
            for part in one.of.split("."):
                body = body[int(part) if part.isdecimal() else part]
            self.known[one.keep] = body
        return problems

    def answer(self, one: Step) -> tuple[httpx2.Response, Any]:
        operation = self.described(one.id)
        given = {} if one.body is None else {"json": self.fill(one.body)}
        where, query = self.address(one.id, one.path), self.fill(one.query)
        if "text/event-stream" in operation.media(operation.success):
            with self.served.http.stream("GET", where, params=query) as answer:
                if answer.status_code != operation.success:
                    answer.read()
                    return answer, body_of(answer)
                line = next(line for line in answer.iter_lines() if line.startswith("data: "))
                return answer, json.loads(line[6:])
        answer = self.served.http.request(operation.method, where, params=query, headers=one.headers, **given)
        return answer, body_of(answer)

    def problems(self, name: str, answer: httpx2.Response, body: Any, status: int | None = None) -> list[str]:
        """What is wrong with an answer, by opencode's document and by the server's own."""
        said = f"{answer.status_code} {str(body)[:200]}"
        if name in REFUSING and answer.status_code == 400 and not status:
            return []
        wrong = (
            [f"status {said}"]
            if answer.status_code >= 500 or status not in (None, answer.status_code)
            else []
        )
        for document in (OPENCODE, self.own):
            operation = document.operations.get(name)
            if operation is not None and not (name in UNLIKE and document is OPENCODE):
                given = operation.method, operation.path, answer.status_code, body
                wrong += document.problems_of(*given)
                wrong += media_misfits(document, operation, answer, body)
        return [f"{name}: {one} in {said}" for one in wrong]

    def state(self) -> Any:
        """What a request may have changed: sessions, what waits, settings, logins, files."""
        asked = (
            "/session",
            "/permission",
            "/question",
            "/project",
            "/config",
            "/global/config",
            "/mcp",
            "/pty",
        )
        told = {path: self.served.http.get(path).json() for path in (*asked, "/api/permission/saved")}
        for session in told["/session"]:
            told[session["id"]] = self.served.http.get(f"/session/{session['id']}/message").json()
        return told, [*files(Path(self.known["root"]))]


def body_of(answer: httpx2.Response) -> Any:
    plain = answer.headers.get("content-type", "").startswith("application/json")
    return answer.json() if plain and answer.content else answer.text


def media_misfits(document: Document, operation: Described, answer: httpx2.Response, body: Any) -> list[str]:
    """What is wrong with the type of an answer, and with the first event of a stream."""
    told = operation.media(answer.status_code)
    kind = answer.headers.get("content-type", "").partition(";")[0]
    due = {one.partition(";")[0]: content for one, content in told.items()}
    if not due:
        return [f"a body of {kind} where none is due"] if body and answer.status_code < 400 else []
    if kind not in due and "application/octet-stream" not in due:
        return [f"{kind}, where {', '.join(due)} is due"]
    if kind != "text/event-stream":
        return []
    return document.misfits(due[kind]["schema"], body)


def files(root: Path) -> Iterator[tuple[str, str]]:
    """The person's files and the project's, each with a hash; git's own and the database apart."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {".git", "log", "snapshot"})
        for name in sorted(names):
            if not name.startswith("instar.db"):
                path = Path(folder, name)
                yield str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A session with a turn that ran a tool, one that waits for a permission, one that waits for an answer."""
    root = tmp_path_factory.mktemp("house")
    served = Served([], root / "project", prepare(root, {"*": "allow", "bash": "ask"}))
    try:
        made = House(served, root)
        known = made.known
        known["talk"], known["waiting"], known["asked"] = (served.session(title=name) for name in "twa")
        for text in ("write note", "look"):
            assert served.ask(known["talk"], text).status_code == 200
        served.ask(known["waiting"], "run", "prompt_async")
        served.ask(known["asked"], "ask", "prompt_async")
        known |= {name: served.session(title=name) for name in ("made", "newer", "forked")}
        known["pty"] = known["newer_pty"] = served.http.post("/pty", json={}).json()["id"]
        known["here"] = served.http.get("/project/current").json()["id"]
        said = served.http.get(f"/session/{known['talk']}/message").json()
        known |= {"first": said[0]["info"]["id"], "message": said[-1]["info"]["id"]}
        known["part"] = said[0]["parts"][0]["id"]
        for name in ("permission", "question"):
            known[name] = wait_until(lambda name=name: served.http.get(f"/{name}").json())[0]["id"]
        yield made
    finally:
        served.stop()


@pytest.mark.slow
def test_the_servers_own_document_is_opencodes_and_its_own_part_beside_it(house):
    problems = []
    for name, operation in house.own.operations.items():
        theirs = OPENCODE.operations.get(name)
        if theirs is None:
            if not operation.path.startswith("/instar/") and name != "global.doc":
                problems.append(f"{name}: {operation.path}")
            continue
        path = theirs.path.replace("/*", "/{path}")
        pairs = {
            "method": (operation.method, theirs.method),
            "path": (operation.path, path),
            "success": (operation.success, theirs.success),
            "needed": (needed(house.own, operation), needed(OPENCODE, theirs)),
            "parameters": (operation.names, theirs.names | ADDED.get(name, set())),
        }
        problems += [f"{name}: {what} {ours} {due}" for what, (ours, due) in pairs.items() if ours != due]
    assert not problems, "\n".join(problems)


def needed(document: Document, operation: Described) -> list[set[str]]:
    """The fields without which a body is refused, for each form that it may have."""
    body = document.resolved(operation.body or {})
    forms = [document.resolved(one) for one in body.get("anyOf", [body])]
    return sorted((set(form.get("required", ())) for form in forms), key=sorted)


@pytest.mark.slow
def test_the_servers_own_document_is_openapi(house):
    # Imported where it is used, for it takes a quarter of a second; looked through once, not at each reference.
    from openapi_spec_validator.schemas import schema_v31

    document, meta = house.own.plain, dict(schema_v31)
    known = Registry().with_resource(meta["$id"], DRAFT202012.create_resource(meta)).crawl()
    found = Draft202012Validator(meta, registry=known).iter_errors(document)
    assert [error.message for error in found] == []
    text = json.dumps(document)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(re.findall(r'"\$ref": "([^"]+)"', text)) <= known
    assert len(house.own.operations) == text.count('"operationId"')
    for operation in house.own.operations.values():
        parts = {one["name"] for one in operation.said["parameters"] if one["in"] == "path"}
        assert parts == set(re.findall(r"\{(\w+)\}", operation.path))


def wrong_bodies(house: House, one: Step) -> Iterator[tuple[str, Any]]:
    """Bodies that cannot be read, by what is wrong with them: with the words, the form, one of the fields."""
    operation = house.described(one.id)
    if operation.body is None:
        return
    good = house.fill(one.body)
    yield "malformed", b'{"a": '
    yield "not UTF-8", b'{"a": "\xff"}'
    yield "a list", b"[]"
    if any(needed(house.document(one.id), operation)):
        yield "nothing", b""
        yield "an empty object", b"{}"
    for key, value in (good or {}).items():
        wrong: Any = 5 if isinstance(value, str) else "5 o'clock"
        yield f"{key} of another type", json.dumps({**good, key: wrong}).encode()


@pytest.mark.slow
def test_a_body_that_cannot_be_read_is_refused_and_nothing_has_changed(house):
    before, problems = house.state(), []
    for one in DOING:
        operation = house.described(one.id)
        for what, body in wrong_bodies(house, one):
            headers = {**one.headers, "content-type": "application/json"}
            where = house.address(one.id, one.path)
            answer = house.served.http.request(operation.method, where, content=body, headers=headers)
            if answer.status_code not in (400, one.status):
                problems.append(f"{one.id}: {answer.status_code} for {what}")
            problems += [f"{what}: {one}" for one in house.problems(one.id, answer, body_of(answer))]
    assert not problems, "\n".join(problems)
    assert house.state() == before


@pytest.mark.slow
@pytest.mark.parametrize("form", ["unknown", "misshapen"])
def test_an_id_that_nobody_knows_is_answered_as_the_documents_have_it_and_nothing_has_changed(house, form):
    before, problems = house.state(), []
    for one in (*LOOKING, *DOING):
        if not one.path:
            continue
        path = {name: wrong_id(name, form) for name in one.path}
        answer, body = house.answer(one._replace(path=path))
        problems += house.problems(one.id, answer, body)
        shaped = [name for name in path if form == "misshapen" and name in PREFIXES]
        if shaped and answer.status_code not in (400, 404):
            problems.append(f"{one.id}: {answer.status_code} for {path}")
    assert not problems, "\n".join(problems)
    assert house.state() == before


def wrong_id(name: str, form: str) -> str:
    """An id that nobody has: well formed, or not."""
    prefix = PREFIXES.get(name, "")
    return f"{prefix}_{'0' * 26}" if form == "unknown" and prefix else "no such/thing"


def test_a_query_that_cannot_be_read_is_refused(house):
    problems = []
    for one in LOOKING:
        operation = house.described(one.id)
        typed = {
            p["name"]: house.own.resolved(p["schema"])
            for p in house.own.operations[one.id].said["parameters"]
            if p["in"] == "query"
        }
        for name, schema in typed.items():
            if free(schema):
                continue
            answer, body = house.answer(one._replace(query={**one.query, name: "never!"}))
            if answer.status_code != 400:
                problems.append(f"{one.id}: {answer.status_code} for {name}")
            problems += house.problems(one.id, answer, body)
        required = [
            p["name"]
            for p in operation.said.get("parameters", ())
            if p["in"] == "query" and p.get("required")
        ]
        for name in required:
            query = {key: value for key, value in one.query.items() if key != name}
            answer, body = house.answer(one._replace(query=query))
            if answer.status_code != 400:
                problems.append(f"{one.id}: {answer.status_code} without {name}")
            problems += house.problems(one.id, answer, body)
    assert not problems, "\n".join(problems)


def free(schema: dict[str, Any]) -> bool:
    """Whether any text fits a schema."""
    forms = schema.get("anyOf", [schema])
    return any(form.get("type") == "string" and not {"enum", "pattern"} & set(form) for form in forms)


@pytest.mark.slow
def test_every_operation_answers_good_input_as_both_documents_have_it(house):
    walked = {one.id for one in (*LOOKING, *DOING)}
    assert walked | {"tui.control.next"} == set(OPENCODE.operations) | set(house.own.operations)
    problems = [problem for one in (*LOOKING, *DOING) for problem in house.ask(one)]
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_what_a_terminal_interface_is_to_do_next_is_waited_for(house):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(house.ask, step("tui.control.next"))
        wait_until(lambda: house.served.http.post("/tui/open-help").json() and waiting.done())
        assert waiting.result() == []
