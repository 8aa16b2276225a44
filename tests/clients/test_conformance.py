"""The plugins of ``tests/conformance`` in the real opencode: their traces are as they were recorded."""

import json
import os
from pathlib import Path

from tests.clients.programs import installed
from tests.conformance import hosts
from tests.conformance.model import Model
from tests.conformance.play import write
from tests.conformance.playing import SUFFIXES, answers, traces
from tests.conformance.scenarios import SCENARIOS

RECORDED = Path(__file__).parents[1] / "data" / "conformance.json"


def test_each_plugin_leaves_the_trace_in_opencode_that_was_recorded(tmp_path: Path) -> None:
    model = Model(answers(SCENARIOS))
    host = hosts.opencode(tmp_path, installed())
    try:
        found = traces(host, model, SCENARIOS, [{"*": SUFFIXES["typescript"]}] * len(SCENARIOS))
    finally:
        host.close()
        model.close()
    if os.environ.get("INSTAR_RECORD"):
        assert not [name for name, one in found.items() if "broke off" in one]
        write(RECORDED, found)
    assert found == json.loads(RECORDED.read_text())
