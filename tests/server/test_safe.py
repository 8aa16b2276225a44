"""`instar serve --safe`: sessions meet none of the agent's changes."""

import subprocess

import pytest

SCRIPT = """\
#!/bin/sh
cat >/dev/null
case "$1" in
discover) echo '{"name": "bot", "tools": [{"name": "who"}]}' ;;
execute_tool) echo '{"result": "a person"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
BY_AGENT = "evolve_hook_write bot.sh\n\nSession: ses_1\nCall: call_1"


@pytest.mark.slow
def test_a_safe_server_runs_the_scripts_that_a_person_left(serve, tmp_path):
    script = tmp_path / "ws" / "hooks" / "bot.sh"
    script.parent.mkdir(parents=True)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(tmp_path / "ws")]
    for text, message in ((SCRIPT, "mine"), (SCRIPT.replace("a person", "the agent"), BY_AGENT)):
        script.write_text(text)
        script.chmod(0o755)
        for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", message]):
            subprocess.run([*git, *command], check=True)
    for arguments, who in (["--safe"], "a person"), ([], "the agent"):
        served = serve(
            "--workspace",
            str(tmp_path / "ws"),
            *arguments,
            script="== turn\ntool: bot_who {}\n== turn\ntext: done\n",
        )
        answered = served.ask(served.session(title="t")).json()
        session_id = answered["info"]["sessionID"]
        messages = served.http.get(f"/session/{session_id}/message").json()
        said = [
            part["state"]["output"] for one in messages for part in one["parts"] if part["type"] == "tool"
        ]
        assert said == [who]
        served.stop()
