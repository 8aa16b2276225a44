"""Watched files over HTTP, in the document's form."""

import threading
from collections.abc import Callable

import pytest
from jsonschema import Draft202012Validator
from tests.server.conftest import DOCUMENT, Served


@pytest.mark.slow
def test_a_client_that_listens_is_told_of_files_in_the_documents_form(serve: Callable[..., Served]) -> None:
    served = serve()
    stop = threading.Event()

    def touch() -> None:
        number = 0
        while not stop.wait(0.02):
            (served.directory / "a.txt").write_text(str(number := number + 1))

    with served.events() as events:
        writer = threading.Thread(target=touch)
        writer.start()
        try:
            found = next(event for event in events if event["type"] == "file.watcher.updated")
        finally:
            stop.set()
            writer.join()
    assert found["properties"]["file"] == str(served.directory / "a.txt")
    schema = {"$ref": "#/components/schemas/EventFileWatcherUpdated", "components": DOCUMENT["components"]}
    assert list(Draft202012Validator(schema).iter_errors(found)) == []
    assert served.stop() == 0
