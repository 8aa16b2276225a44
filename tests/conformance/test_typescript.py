import dataclasses
import json
import os
from pathlib import Path

import pytest
from tests.conformance import hosts
from tests.conformance.differences import TYPESCRIPT, unexplained
from tests.conformance.model import Model
from tests.conformance.playing import SUFFIXES, answers, npm, traces
from tests.conformance.scenarios import SCENARIOS

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "conformance.json").read_text())


@pytest.mark.slow
def test_each_plugin_in_typescript_leaves_the_trace_that_it_leaves_in_opencode(tmp_path: Path) -> None:
    wrong = _wrong(tmp_path, [one.name for one in SCENARIOS], {"*": SUFFIXES[TYPESCRIPT]})
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("python", [("order_b",), ("order_a", "order_c"), ("order_a", "throws_at_load")])
def test_plugins_of_both_languages_run_in_the_order_of_their_list(
    python: tuple[str, ...], tmp_path: Path
) -> None:
    suffixes = {"*": SUFFIXES[TYPESCRIPT], **dict.fromkeys(python, ".py")}
    wrong = _wrong(tmp_path, ["order_of_two", "order_of_three", "failing_neighbour"], suffixes)
    assert not wrong, "\n".join(wrong)


def _wrong(folder: Path, names: list[str], suffixes: dict[str, str]) -> list[str]:
    """Play scenarios in instar and say what differs from their traces in opencode and is not meant to."""
    played = [dataclasses.replace(one) for one in SCENARIOS if one.name in names]
    model = Model(answers(played))
    offered = npm(os.environ)
    assert offered is not None
    host = hosts.instar(folder, offered)
    try:
        found = traces(host, model, played, [suffixes] * len(played))
    finally:
        host.close()
        model.close()
    return [
        line for name, one in found.items() for line in unexplained(name, TYPESCRIPT, REFERENCE[name], one)
    ]
