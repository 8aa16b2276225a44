"""The client is what the server's operations make of it."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("client_generator", Path(__file__).parent / "generator.py")
assert _spec is not None
assert _spec.loader is not None
generator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generator)


def test_the_client_is_made_of_the_servers_operations_as_they_are_now():
    made = generator.sources()
    stands = {
        name: {path.name: path.read_text() for path in (generator.CLIENT / name).glob("*.py")}
        for name in made
    }
    assert stands == made, "run tests/client/generator.py"
