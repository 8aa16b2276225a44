"""A server that runs for long: what the model writes as code of a trusted folder waits for the person."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.conftest import Served

EVIL = 'open({path!r}, "a").write({word!r})\n\n\nasync def evil(input, options=None):\n    return {{}}\n'
TOOL = 'open({path!r}, "a").write({word!r})\nasync def execute(args, context):\n    "Adds."\n'


@pytest.mark.slow
def test_code_that_the_model_writes_is_not_taken_up_until_the_person_trusts_it(
    serve: Callable[..., Served], tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    trace, project = tmp_path / "trace", tmp_path / "project"
    project.mkdir()

    def instar(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "instar", *words],
            cwd=project,
            env={"PATH": os.environ["PATH"], **clean_environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    files = {
        ".instar/plugin/evil.py": EVIL.format(path=str(trace), word="a"),
        ".instar/tool/x.py": '"""Adds."""\n' + TOOL.format(path=str(trace), word="b"),
        "elsewhere.py": EVIL.format(path=str(trace), word="c"),
        "instar.json": '{"plugin": ["./elsewhere.py"]}',
    }
    calls = [
        f"mkdir -p {Path(name).parent}; printf %s {shlex.quote(text)} > {name}"
        for name, text in files.items()
    ]
    turns = [f"== turn\ntool: bash {json.dumps({'command': call})}\n" for call in calls]
    instar("trust")
    served = serve(script="\n".join([*turns, "== turn\ntext: written\n"]))
    with served.events("/instar/event") as events:
        answer = served.ask(served.session()).json()
        assert answer["parts"][-2]["text"] == "written", answer
        said, unaccepted = set[str](), dict[str, str]()
        for event in events:
            if event["type"] == "instar.trust.changed":
                assert event["properties"]["directory"] == str(project)
                unaccepted = event["properties"]["unaccepted"]
            if event["type"] == "instance.reloaded":
                said |= {*event["properties"]["problems"]}
                assert event["properties"]["what"] == []
            if unaccepted == {str(project / name): "new" for name in files}:
                break
        assert all(any(name in one for one in said) for name in files)
        assert not trace.exists()
        assert all(one.endswith(f"then accept: instar trust {project}") for one in said)
        assert ".instar/plugin/evil.py: a plugin, which runs as it stands there now" in instar("trust")
        reloaded = next(one["properties"] for one in events if one["type"] == "instance.reloaded")
        assert reloaded == {"what": ["tools", "plugin:elsewhere", "plugin:evil"], "problems": []}
        told = next(one["properties"] for one in events if one["type"] == "instar.trust.changed")
        assert told == {"directory": str(project), "unaccepted": {}}
    assert sorted(trace.read_text()) == ["a", "b", "c"]
    log = Path(clean_environment["XDG_STATE_HOME"]) / "instar" / "log" / "instar.log"
    assert "then accept: instar trust" in log.read_text()
