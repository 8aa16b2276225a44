import json
import os
import sys
from pathlib import Path

call = json.load(sys.stdin)
root, data = Path(os.environ["CLAUDE_PLUGIN_ROOT"]), Path(os.environ["CLAUDE_PLUGIN_DATA"])
with (data / "seen").open("a") as seen:
    seen.write(call["tool_input"]["command"] + "\n")
if "push --force" in call["tool_input"]["command"]:
    print((root / "scripts" / "why.txt").read_text().strip(), file=sys.stderr)
    sys.exit(2)
