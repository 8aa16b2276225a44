"""A server whose guards cannot be read or loaded: it says so before the first step, after a restart too."""

import json
from pathlib import Path

from tests.server.machine import served_in

SCRIPT = '== turn\ntool: bash {"command": "touch ran"}\n== turn\ntext: {{last.tool.output}}\n'


def test_what_an_unreadable_rule_would_judge_is_refused_and_said_after_a_restart_too(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".instar").mkdir(parents=True)
    (project / ".instar/hooks.json").write_text('{"PreToolUse": [')
    (project / "instar.json").write_text(json.dumps({"plugin": ["./gone.py"]}))
    for _ in range(2):
        with served_in(tmp_path, SCRIPT) as served:
            session = served.session()
            refused = served.ask(session, "go")
            assert refused.status_code == 400
            assert ".instar/hooks.json:1:17: it cannot be read" in refused.text
            assert served.http.get(f"/session/{session}/message").json() == []
            served.process.terminate()
            said = served.process.communicate()[1].decode()
            assert ".instar/hooks.json:1:17:" in said
            assert "gone.py is skipped" in said
    assert not (project / "ran").exists()


def test_clients_hear_of_an_unreadable_file_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "project/.claude").mkdir(parents=True)
    (tmp_path / "project/.claude/settings.json").write_bytes('{"hooks": {}}'.encode("utf-16"))
    with served_in(tmp_path, SCRIPT) as served:
        with served.events("/instar/event") as events:
            served.ask(served.session(), "go", "prompt_async")
            kinds = []
            for one in events:
                kinds.append(one["type"])
                if one["type"] == "hooks.armed":
                    (problem,) = one["properties"]["problems"]
                if one["type"] == "message.part.updated":
                    break
        assert "settings.json:1:1: expected UTF-8 text" in problem
        assert "hooks.armed" in kinds
