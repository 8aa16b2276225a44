"""What a plugin of anybody's adds to the server, and that nothing it does there harms others."""

import json

import httpx2
import pytest
from tests.asking import asking

from instar.plugin import Registry, operation
from instar.server.app import application
from instar.server.within import Only, Transport
from instar.wire import Wire

PLUGIN = '''
from typing import Annotated
import msgspec
from instar.plugin import Busy, Invalid, NotFound, operation, wire

class Note(wire.Wire):
    text: Annotated[str, msgspec.Meta(max_length=5)]
    made_by: str = "me"

class NoteQuery(wire.Wire):
    upper: bool = False

class Notes:
    def __init__(self, folder):
        self.folder, self.notes = folder, {}

    @operation("PUT", "/instar/plugin/notes/note/{noteName}", "instar.plugin.notes.put")
    async def put(self, note_name: str, body: Note) -> Note:
        """Keep a note."""
        self.notes[note_name] = body
        return body

    @operation("GET", "/instar/plugin/notes/note/{noteName}", "instar.plugin.notes.get", errors=(404,))
    async def get(self, note_name: str, query: NoteQuery) -> Note:
        """Get a note."""
        if note_name not in self.notes:
            raise NotFound(f"there is no note {note_name}")
        note = self.notes[note_name]
        return Note(text=note.text.upper(), made_by=note.made_by) if query.upper else note

    @operation("GET", "/instar/plugin/notes/note/first", "instar.plugin.notes.first")
    async def first(self) -> list[str]:
        """List the names."""
        return [self.folder, *self.notes]

    @operation("POST", "/instar/plugin/notes/fail/{how}", "instar.plugin.notes.fail")
    async def fail(self, how: str) -> str:
        """Fail."""
        if how == "invalid":
            raise Invalid("that is wrong")
        if how == "busy":
            raise Busy("ses_1", "cannot be asked")
        if how == "exit":
            raise SystemExit(3)
        if how == "odd":
            return object()
        raise RuntimeError("sk-secret stands in this text")

    @operation("DELETE", "/instar/plugin/notes/note", "instar.plugin.notes.clear", status=204, order=True)
    async def clear(self) -> None:
        """Forget all."""
        self.notes.clear()

id = "notes"

async def server(input, options=None):
    input.registry.add_routes(Notes(str(input.directory)))
    return {}
'''


@pytest.fixture
def person(tmp_path, clean_environment):
    folder = tmp_path / "project"
    plugins = folder / ".instar" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "notes.py").write_text(PLUGIN)
    (tmp_path / "other").mkdir()
    return folder, {**clean_environment, "INSTAR_TRUST": "all"}


def test_a_plugins_operations_are_carried_out_in_the_instance_that_loaded_it(person):
    folder, environment = person
    with asking(folder, environment) as http:
        path = "/instar/plugin/notes/note/a"
        assert http.ask("PUT", path, 200, json={"text": "hi"}) == {"text": "hi"}
        assert http.get(path) == {"text": "hi"}
        assert http.get(path, upper="true") == {"text": "HI"}
        assert http.get("/instar/plugin/notes/note/first") == [str(folder), "a"]
        assert http.get("/instar/plugin/notes/note/b", 404) == "there is no note b"
        other = str(folder.parent / "other")
        assert http.get(path, 404, directory=other) == f"GET {path}: Not Found"
        http.ask("DELETE", "/instar/plugin/notes/note", 204)
        assert http.get("/instar/plugin/notes/note/first") == [str(folder)]


@pytest.mark.parametrize(
    ("how", "status", "name"),
    [
        ("invalid", 400, "BadRequest"),
        ("exit", 500, "UnknownError"),
        ("other", 500, "UnknownError"),
        ("odd", 500, ""),
    ],
)
def test_what_a_plugins_method_raises_is_an_answer_and_the_server_lives(person, how, status, name):
    folder, environment = person
    with asking(folder, environment) as http:
        said = json.dumps(http.post(f"/instar/plugin/notes/fail/{how}", status=status))
        assert "sk-secret" not in said
        assert http.get("/instar/plugin/notes/note/first") == [str(folder)]
        busy = http.post("/instar/plugin/notes/fail/busy", status=409)
        assert busy["_tag"] == "SessionBusyError"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"text": 3}', b'{"text": "too long"}', b"{}"])
def test_a_body_that_does_not_fit_does_not_reach_the_plugin(person, body):
    folder, environment = person
    with asking(folder, environment) as http:
        assert "body" in http.ask("PUT", "/instar/plugin/notes/note/a", 400, content=body)
        assert http.get("/instar/plugin/notes/note/first") == [str(folder)]


def test_a_plugins_order_asks_for_a_login_as_the_flagships_do(person):
    folder, environment = person
    with asking(folder, environment, login=False) as http:
        http.ask("PUT", "/instar/plugin/notes/note/a", 200, json={"text": "hi"})
        assert "is a person's" in http.delete("/instar/plugin/notes/note", 403)
        assert http.get("/instar/plugin/notes/note/first") == [str(folder), "a"]


def test_what_asks_in_process_is_a_plugin_and_no_person(person):
    folder, environment = person

    async def order(runtime):
        transport = Transport(application(Only(runtime)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://instar") as client:
            return [
                await client.post("/instar/stop/resume"),
                await client.get("/instar/plugin/notes/note/first"),
            ]

    with asking(folder, environment) as http:
        refused, looked = http.do(order(http.runtime))
    assert (refused.status_code, looked.status_code) == (403, 200)


# -- what may be registered --------------------------------------------------------------------------------


class Query(Wire):
    word: str = ""


def routes(method="GET", path="/instar/plugin/mine/a", name="instar.plugin.mine.a", **more):
    class Routes:
        @operation(method, path, name, **more)
        async def one(self, query: Query) -> str:
            """Do it."""
            return ""

    return Routes()


class Loose:
    @operation("GET", "/instar/plugin/mine/loose", "instar.plugin.mine.loose")
    def one(self) -> str:
        """Do it."""
        return ""


class Missing:
    @operation("GET", "/instar/plugin/mine/{a}", "instar.plugin.mine.missing")
    async def one(self) -> str:
        """Do it."""
        return ""


class Twice:
    @operation("GET", "/instar/plugin/mine/{a}/x", "instar.plugin.mine.a")
    async def one(self, a: str) -> str:
        """Do it."""
        return ""

    @operation("GET", "/instar/plugin/mine/{b}/x", "instar.plugin.mine.b")
    async def other(self, b: str) -> str:
        """Do it."""
        return ""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (routes(path="/session/x"), "must begin with /instar/plugin/mine/"),
        (routes(path="/instar/evolve/log"), "must begin with /instar/plugin/mine/"),
        (routes(path="/instar/plugin/mine2/a"), "must begin with /instar/plugin/mine/"),
        (routes(name="session.list"), "must begin with instar.plugin.mine."),
        (routes(), "are the same"),
        (routes(path="/instar/plugin/mine/b"), "are the same"),
        (Loose(), "must be `async`"),
        (Missing(), "do not agree"),
        (Twice(), "are the same"),
        (object(), "no method that is marked"),
    ],
)
def test_what_a_plugin_may_not_add_is_refused_and_nothing_of_it_is_added(given, says):
    registry = Registry()
    registry.of("mine").add_routes(routes())
    with pytest.raises((ValueError, TypeError), match=says):
        registry.of("mine").add_routes(given)
    assert [one.operation.id for one in registry.routes] == ["instar.plugin.mine.a"]


def test_a_flagship_adds_below_instar_and_another_method_of_a_path_is_another_operation():
    registry = Registry()
    registry.of("evolve").add_routes(routes(path="/instar/evolve/x", name="instar.evolve.x"))
    registry.of("evolve").add_routes(routes("POST", "/instar/evolve/x", "instar.evolve.y"))
    with pytest.raises(ValueError, match="must begin with /instar/"):
        registry.of("evolve").add_routes(routes(path="/session/x"))
    assert len(registry.routes) == 2
