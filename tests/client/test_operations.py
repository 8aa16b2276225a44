"""The client has a method for each operation of the server, which takes what the server takes and reads its answers."""

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from tests.server.conftest import PASSWORD, Served
from tests.server.prepared import prepare

from instar.api.operation import Bound, flagship_operations, operations
from instar.api.project import NameBody
from instar.api.provider import ApiAuth
from instar.api.terminal import PtyCreateBody, TuiToastBody
from instar.api.v2 import KeyBody
from instar.api.v2_session import StageBody
from instar.client import Client, Invalid, NotFound, PromptBody, SessionBody
from instar.client.endpoint import Calls, Endpoint, carried_out_by
from instar.server.app import families
from instar.wire import replace

OWN = [bound for family in families() for bound in operations(family) if bound.operation.media != "websocket"]
FLAGSHIPS = [bound for bounds in flagship_operations().values() for bound in bounds]
NOT_ASKED = {
    "tui.control.next",
    "v2.session.permission.get",
    "v2.integration.attempt.status",
    "instar.evolve.candidate",
    "instar.evolve.report",
}
"""Of what is asked for by GET: the first waits for another client, the others are about something that waits."""


def name_of(bound: Bound) -> str:
    """``session.deleteMessage`` is ``session.delete_message``; a word of Python's gets an underscore."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bound.operation.id).lower().split(".")
    named = ".".join(f"{word}_" if keyword.iskeyword(word) else word for word in words)
    # A method has no methods of its own.
    return named.replace("vcs.diff.raw", "vcs.diff_raw")


def methods(calls: object, above: str = "") -> Iterator[tuple[str, Endpoint[..., Any, Any]]]:
    for name, one in vars(type(calls)).items():
        if isinstance(one, Endpoint):
            yield f"{above}{name}", one
    for name, family in vars(calls).items():
        if isinstance(family, Calls) and name != "connection":
            yield from methods(family, f"{above}{name}.")


def told(asked: Endpoint[..., Any, Any]) -> dict[str, Any]:
    """What a method does, in a form that can be compared."""
    taken = {
        name: (one.kind, one.default, plain(one.annotation)) for name, one in asked.taken.parameters.items()
    }
    answer = plain(asked.taken.return_annotation)
    request = f"{'STREAM' if asked.streams else asked.method} {asked.path}"
    return {"request": request, "doc": asked.__doc__, "taken": taken, "answer": answer}


def plain(kind: Any) -> Any:
    """A type without its limits; a sequence is a list to whoever reads it."""
    origin, inside = get_origin(kind), [plain(one) for one in get_args(kind)]
    if origin is Annotated:
        return plain(get_args(kind)[0])
    if origin in (Union, UnionType):
        return frozenset(one for each in inside for one in (each if isinstance(each, frozenset) else [each]))
    if origin is not None:
        return ({Sequence: list, Mapping: dict}.get(origin, origin), *inside)
    return {None: type(None), object: Any}.get(kind, kind)


def test_the_clients_methods_are_the_servers_operations():
    found = {name: told(one) for name, one in methods(Client())}
    due = {name_of(bound): told(carried_out_by(bound)) for bound in OWN}
    assert sorted(found) == sorted(due)
    assert [found[name] for name in due] == list(due.values())


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a server that has something to answer with."""
    root = tmp_path_factory.mktemp("whole")
    (root / "project").mkdir()
    served = Served([], root / "project", prepare(root))
    with Client(served.url, password=PASSWORD) as made:
        yield made
    served.stop()


def named(client: Client, name: str) -> Any:
    found: Any = client
    for word in name.split("."):
        found = getattr(found, word)
    return found


@pytest.mark.slow
def test_the_answer_to_each_get_is_read_as_what_its_method_returns(client):
    session = client.session.create(SessionBody(title="asked"))
    said = client.session.prompt(session.id, PromptBody.text("look"))
    known = {
        "session_id": session.id,
        "message_id": said.info.id,
        "project_id": session.project_id,
        "pty_id": client.pty.create(PtyCreateBody(command="cat")).id,
        "provider_id": "scripted",
        "ref": "HEAD",
        "old": "HEAD",
        "file": "prompts/tone.md",
        "line": 1,
        "integration_id": "openai",
        "provider": "scripted",
        "model": "test",
        "mode": "git",
        "pattern": "one",
        "query": "one",
    }
    looked = [(name, one.taken, one.method, one.streams) for name, one in methods(Client())]
    looked += [
        (name_of(bound), carried_out_by(bound).taken, bound.operation.method, False) for bound in FLAGSHIPS
    ]
    for name, taken, method, streams in looked:
        if method != "GET" or streams or name in NOT_ASKED:
            continue
        wanted = {key for key, one in taken.parameters.items() if one.default is one.empty}
        path = {"path": "src" if name == "file.list" else "src/one.py"} if "path" in wanted else {}
        named(client, name)(**{**{key: known[key] for key in wanted - {"path"}}, **path})


@pytest.mark.slow
def test_what_changes_something_is_sent_and_answered(client):
    session = client.session.create(SessionBody(title="changed"))
    client.session.prompt(session.id, PromptBody.text("write one"))
    asked = client.session.messages(session.id)[0]
    changed = replace(asked.parts[0], text="write two")
    assert client.part.update(session.id, asked.info.id, changed.id, changed).text == "write two"
    assert client.v2.session.revert.stage(session.id, StageBody(message_id=asked.info.id)).data is not None
    assert client.v2.session.revert.clear(session.id) is None
    assert client.part.delete(session.id, asked.info.id, changed.id) is True
    assert client.auth.set("mine", ApiAuth(key="k")) is True
    assert client.auth.remove("mine") is True
    assert client.v2.integration.connect.key("openai", KeyBody(key="k", label="l")) is None
    assert client.sync.start() is True
    assert session.id in {one.aggregate_id for one in client.sync.history.list({})}
    assert client.tui.show_toast(TuiToastBody(message="m", variant="info")) is True
    assert client.v2.project_copy.refresh(session.project_id) is None
    assert client.experimental.project_copy.generate_name(session.project_id, NameBody()).name
    assert client.mcp.auth.remove("toy").success is True


def test_what_a_server_refuses_says_why(client):
    with pytest.raises(Invalid, match="no service that sessions could be shared with"):
        client.session.share(client.session.create().id)
    with pytest.raises(NotFound, match="ses_none"):
        client.v2.session.revert.commit("ses_none")


@pytest.mark.slow
def test_a_flagship_is_asked_with_its_own_types_or_plain_values(client):
    pin = client.instar.evolve.pin({"file": "prompts/tone.md"})
    assert [one.file for one in client.instar.evolve.pins()] == [pin.file] == ["prompts/tone.md"]
    assert client.instar.evolve.unpin(file="prompts/tone.md").file == pin.file
    assert client.instar.evolve.log(limit=1).changes[0].files
    with pytest.raises(AttributeError, match=r"no operation instar\.evolve\.nothing"):
        client.instar.evolve.nothing()
