"""A project in which every operation of the server has something to answer with."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.server.conftest import environment_in

SCRIPT = """\
== when "^ask$"
text: May I?
tool: question {"questions": [{"question": "Which?", "header": "H", "options": [{"label": "a", "description": "A"}]}]}
== when "^look$"
tool: self {"action": "inspect"}
== when "^write (\\w+)$"
tool: write {"filePath": "{{match.1}}.txt", "content": "{{match.1}}"}
== when "^run$"
reasoning: Hm.
text: I look.
tool: bash {"command": "echo hi"}
== when ""
text: Done: {{last}}
"""
TOY = """
    import json, sys

    OFFERED = {
        "tools/list": {"tools": []},
        "resources/list": {"resources": [{"uri": "toy://one", "name": "one", "mimeType": "text/plain"}]},
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greets", "arguments": []}]},
    }
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            told = {"protocolVersion": request.get("params", {}).get("protocolVersion")}
            told["serverInfo"] = {"name": "toy", "version": "1"}
            told["capabilities"] = {"tools": {}, "resources": {}, "prompts": {}}
            result = told if request["method"] == "initialize" else OFFERED.get(request["method"], {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
"""An MCP server that starts quickly."""
FILES = {
    "src/one.py": "def one() -> int:\n    return 1\n",
    ".opencode/agent/poet.md": "---\ndescription: Writes verse\nmode: subagent\ntemperature: 0.5\n---\nWrite verse.\n",
    ".opencode/command/greet.md": "---\ndescription: Greets\nagent: build\n---\nGreet $ARGUMENTS\n",
    "../workspace/prompts/tone.md": "Be brief.\n",
    ".opencode/skill/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies up\n---\nTidy up.\n",
}


def prepare(root: Path, permission: str | dict[str, str] = "allow") -> dict[str, str]:
    """Make ``root/project`` and return the environment of a server that is to work there, its home in `root` too."""
    project = root / "project"
    toy = {"type": "local", "command": [sys.executable, str(root / "toy.py")]}
    rule = {"matcher": "webfetch", "hooks": [{"type": "command", "command": "exit 2", "name": "no web"}]}
    settings = {
        "model": "scripted/test",
        "permission": permission,
        "mcp": {"toy": toy},
        "hooks": {"PreToolUse": [rule]},
        "tools": {"self_evolution": True},
    }
    written = {**FILES, "instar.json": json.dumps(settings), "../toy.py": textwrap.dedent(TOY)}
    for name, text in {**written, "../script.txt": SCRIPT}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    git = ["git", "-C", str(project), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    (project / "src" / "one.py").write_text("def one() -> int:\n    return 2\n")
    return {**environment_in(root), "INSTAR_TRUST": "all", "INSTAR_WORKSPACE": str(root / "workspace")}
