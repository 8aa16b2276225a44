import json
from pathlib import Path

import pytest
from tests.conformance import hosts
from tests.conformance.differences import PYTHON, unexplained
from tests.conformance.model import Model
from tests.conformance.playing import SUFFIXES, answers, traces
from tests.conformance.scenarios import SCENARIOS

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "conformance.json").read_text())
PLUGINS = Path(__file__).parent / "plugins"


@pytest.mark.slow
def test_each_plugin_in_python_leaves_the_trace_that_its_twin_leaves_in_opencode(tmp_path: Path) -> None:
    model = Model(answers(SCENARIOS))
    host = hosts.instar(tmp_path)
    try:
        found = traces(host, model, SCENARIOS, [{"*": SUFFIXES[PYTHON]}] * len(SCENARIOS))
    finally:
        host.close()
        model.close()
    wrong = [
        line for name, one in found.items() for line in unexplained(name, PYTHON, REFERENCE.get(name), one)
    ]
    assert not wrong, "\n".join(wrong)


def test_each_plugin_exists_in_both_languages_and_is_played() -> None:
    twins = [{path.stem for path in PLUGINS.glob(f"*{suffix}")} for suffix in SUFFIXES.values()]
    assert twins[0] == twins[1]
    played = {name for scenario in SCENARIOS for name, _ in scenario.plugins}
    assert twins[0] - {"record"} == played - {"not_there"}
    assert REFERENCE.keys() == {scenario.name for scenario in SCENARIOS}
