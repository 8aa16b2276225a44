"""docs/reference/plugins-tried.md: what ten published plugins add, by node, by bun and in the real opencode. `make
test-js`.

RECORD=1 writes the page anew. Nothing but npm's registry is on the network.
"""

import os
from pathlib import Path
from typing import Any

from tests.clients import tried
from tests.conformance.model import Model

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plugins-tried.md"

_OPEN = "opencode adds `additionalProperties: false` to objects that do not say it; here other fields are let through"
DIFFERENCES = {
    ("oh-my-opencode@4.19.4", "tools"): f"schemas: {_OPEN}",
    ("oh-my-opencode@4.19.4", "system"): (
        "its skills stand in opencode's system prompt, and here in what the tool `skill` says of itself"
    ),
    ("oh-my-opencode@4.19.4", "messages"): (
        "`session_list` looks for opencode's database in opencode's folder, and finds no session of instar's"
    ),
    ("@tarquinen/opencode-dcp@3.1.14", "messages"): (
        "a call of `compress` without its arguments is answered by instar, from the schema; in opencode by the plugin"
    ),
}
"""What differs between bun and the real opencode, with the reason."""
BY_NODE = {("oh-my-opencode@4.19.4", "tools"): "by node there is no `interactive_bash`"}
"""What differs between node and bun."""

HEAD = """\
# Plugins that were tried

Ten plugins of npm's, each in a project of its own with one skill: in instar by node and by bun, and in the real
opencode 1.18.33. A scripted model calls one of the plugin's tools, or `read`, and answers a second prompt. Compared is
what the plugin adds: tools with their schemas, agents, commands, lines of the system prompt, what the model is sent,
and the files in the home and the project. What the last column does not name is the same in all three.

`opencode-pty` and `opencode-skills` need bun. Where there is none on `PATH`, instar
[installs it](../guides/plugins-javascript.md) and runs all plugins by it.

`make test-js` plays this page and fails where it finds something else; `make test-js RECORD=1` writes it.
[published-plugins.md](compatibility/published-plugins.md) says what each of these and of some others does.

| plugin | tools | agents | commands | lines of system prompt | files | differs from opencode |
|---|---|---|---|--:|---|---|
"""


def test_published_plugins_add_what_they_add_in_opencode(tmp_path: Path) -> None:
    found = {}
    for name in ("opencode", "node", "bun"):
        model = Model(tried.answers())
        folder = tmp_path / name
        host = tried.opencode(folder) if name == "opencode" else tried.instar(folder, name)
        try:
            found[name] = tried.played(host, model)
        finally:
            host.close()
            model.close()
    if os.environ.get("INSTAR_RECORD"):
        PAGE.write_text(page(found["bun"]))
    assert tried.differing(found["opencode"], found["bun"]) == set(DIFFERENCES)
    assert tried.differing(found["node"], found["bun"]) == set(BY_NODE)
    assert PAGE.read_text() == page(found["bun"])


def page(found: dict[str, dict[str, Any]]) -> str:
    """The page, of what the plugins added."""
    rows = []
    for spec, one in found.items():
        cells = [tried.names(one[kind]) for kind in ("tools", "agents", "commands")]
        said = [reason for (of, _), reason in [*DIFFERENCES.items(), *BY_NODE.items()] if of == spec]
        cells += [str(len(one["system"])), tried.names(one["files"]), "; ".join(said) or "–"]
        rows.append(f"| `{spec}` | {' | '.join(cells)} |\n")
    return HEAD + "".join(rows)
