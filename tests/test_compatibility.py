"""docs/reference/compatibility keeps its word: each row names a test that exists, or says why there is none."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from instar.event import TYPES
from instar.event.renamed import RENAMED
from instar.plugin import points
from instar.plugin.points import NOT_POINTS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference" / "compatibility"

WITHOUT_TEST = re.compile(r"(Never sent|Not done|Nothing to hold): .+\.")
"""How a row begins that no test holds: with the reason."""

DOCUMENTED_EVENTS = {
    *("installation.updated", "lsp.client.diagnostics", "message.updated", "message.removed"),
    *("message.part.updated", "message.part.removed", "session.compacted", "session.updated"),
    *("session.deleted", "session.idle", "session.error", "permission.updated", "permission.replied"),
    *("file.edited", "file.watcher.updated", "todo.updated", "server.connected", "ide.installed"),
}
BUS_EVENTS = {
    *("session.created", "session.updated", "session.deleted", "session.diff", "session.error"),
    *("session.status", "session.idle", "session.compacted", "message.updated", "message.removed"),
    *("message.part.updated", "message.part.delta", "message.part.removed"),
}
PARTS = {
    *("text", "reasoning", "file", "tool", "step-start", "step-finish", "snapshot", "patch", "agent"),
}
HOOKS = {
    *("dispose", "event", "config", "tool", "auth", "provider", "chat.message", "chat.params"),
    *("chat.headers", "permission.ask", "command.execute.before", "tool.execute.before"),
    *("tool.execute.after", "shell.env", "experimental.chat.messages.transform"),
    *("experimental.chat.system.transform", "experimental.provider.small_model"),
    *("experimental.session.compacting", "experimental.compaction.autocontinue"),
    *("experimental.text.complete", "tool.definition"),
}
"""The keys of opencode 1.18's hooks."""
INTERFACE = "Hooks: opencode's plugin interface"
"""The section that has a row for each."""


HEADS = ("| it says |", "| it is given |")
"""How the head of a table of statements begins."""


class Row(NamedTuple):
    """A statement: under which headings it stands, where, what it says, what instar does, and what holds it."""

    section: str
    place: str
    says: str
    does: str
    held: str

    @property
    def tests(self) -> list[str]:
        return [] if self.held == "–" else self.held.split("<br>")

    @property
    def name(self) -> str:
        """The name in code that the row begins with, of an event, a part or a hook."""
        found = re.match(r"`([\w.-]+)`", self.says)
        return found[1] if found else ""


def rows(page: Path) -> Iterator[Row]:
    """The rows of a page's tables of statements; a section is named after the page's title and its own heading."""
    title, section, states = "", "", False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("# "):
            title = section = line[2:]
        elif line.startswith("## "):
            section = f"{title} / {line[3:]}"
        elif not line.startswith("|"):
            states = False
        elif line.startswith(HEADS):
            states = True
        elif states and line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 3, f"{page.name}:{number} has {len(cells)} cells"
            yield Row(section, f"{page.name}:{number}", *cells)


ROWS = [row for page in sorted(PAGES.glob("*.md")) for row in rows(page)]


SAID = {
    "opencode-evolve.md": """
        OPENCODE_EVOLVE_WORKSPACE ~/workspace config/evolve.jsonc state/evolve.json hooks/ prompts/
        tests/ model heartbeat_ms hook_timeout heartbeat_title heartbeat_agent heartbeat_cleanup
        heartbeat_cleanup_count heartbeat_cleanup_tokens none new archive compact EVOLVE_MODEL
        EVOLVE_HEARTBEAT_AGENT default_agent log system tools notifications actions modified
        continue prompt user message result discover name test parameters string number boolean
        object array any optional permission.arg mutate_request session history observe_message
        thinking calls answer notify idle heartbeat sessions compacting format_notification recover
        error failed_hook execute_tool tool args tool_before tool_after callID title output
        hook_list hook_read hook_write hook_edit hook_validate prompt_list prompt_read prompt_write
        prompt_edit datetime heartbeat_time offset limit replaceAll initial send session_id
        synthetic create_session examples/hello agents/evolve.md
    """,
    "nanobot-self.md": """
        self_evolution inspect modify call list_tools manage_tool snapshot restore list_snapshots
        reset max_iterations context_window_tokens model _runtime_vars subagents._running_tasks
        subagents.get_running_count subagents.cancel_by_session context.build_system_prompt
        web_config.enable provider_retry_mode bus provider _running _config_defaults
        _config_snapshots 64 1,024 10 __class__ __dict__ consolidator dream runner commands
        web_config exec_config workspace
    """,
    "opencode-formats.md": """
        description mode model temperature tools permission disable edit bash webfetch subagent
        primary all agent subtask $ARGUMENTS $VARIABLE_NAME text reasoning file tool step-start
        step-finish snapshot patch agent project client $ directory worktree event
        tool.execute.before tool.execute.after synthetic time metadata mime filename url source
        callID state pending running completed error input output title attachments cost tokens hash
        files name 0.55
    """,
    "agent-hooks.md": """
        command prompt agent type model tools timeout matcher stop decision allow deny reason
        context TASKS.json 60 30
    """,
    "plugin-touchpoints.md": """
        experimental.chat.messages.transform experimental.chat.system.transform client project
        directory worktree experimental_workspace serverUrl id server tui info parts role user
        assistant time format summary agent model variant system tools error parentID modelID
        providerID mode path cost tokens structured finish callID tool state metadata pending
        running completed input raw title output attachments compacted synthetic ignored session
        project_id workspace_id parent_id slug version share_url summary_additions summary_deletions
        summary_files summary_diffs revert permission time_compacting time_archived message part
        data plugin cwd env quiet nothrow text json lines experimental_workspace.register name
        description configure create remove target session.created session.updated session.deleted
        session.diff session.error session.status session.idle retry busy attempt next
        message.updated message.removed message.part.updated message.part.delta message.part.removed
        session.compacted
    """,
}
"""The names that each description says: settings, fields, hooks, tools, columns, figures."""


def of(section: str) -> list[Row]:
    found = [row for row in ROWS if row.section == section]
    assert found, f"there is no section {section}"
    return found


@cache
def declared_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.place)
def test_a_row_is_held_by_tests_that_exist_or_says_why_none_does(row: Row) -> None:
    if not row.tests:
        assert WITHOUT_TEST.match(row.does), f"{row.place} has neither a test nor a reason: {row.says}"
    for named in row.tests:
        found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", named)
        assert found, f"{row.place}: {named} is no test's name"
        assert found[2] in declared_in(found[1]), f"{row.place}: there is no {named}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.place)
def test_a_reason_stands_only_where_there_is_no_test(row: Row) -> None:
    assert not (row.tests and WITHOUT_TEST.match(row.does)), f"{row.place}: {row.does}"


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Formats: opencode's documentation / Events", DOCUMENTED_EVENTS),
        ("Formats: opencode's documentation / Message parts", PARTS),
        (INTERFACE, HOOKS),
    ],
)
def test_a_list_of_names_has_one_row_each(section: str, names: set[str]) -> None:
    found = [row.name for row in of(section) if row.name]
    assert sorted(found) == sorted(names)


def test_the_events_of_the_bus_have_one_row_each() -> None:
    found = [row.name for row in of("Plugin touchpoints: opencode's source / 7. The event bus") if row.name]
    assert sorted(found) == sorted(BUS_EVENTS)


def test_the_published_plugins_that_a_test_plays_stand_first_among_those_that_were_seen() -> None:
    text = (PAGES / "published-plugins.md").read_text("utf-8")
    seen = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    played = ast.parse((ROOT / "tests" / "clients" / "test_npm_plugins.py").read_text("utf-8"))
    (pinned,) = [
        ast.literal_eval(node.value)
        for node in played.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PLUGINS"
    ]
    assert seen[: len(pinned)] == pinned
    assert "plays the first seven" in text
    assert len(pinned) == 7


@pytest.mark.parametrize("page", SAID)
def test_each_name_that_a_description_says_stands_in_a_row_of_its_page(page: str) -> None:
    told = " ".join(row.says for row in ROWS if row.place.startswith(f"{page}:"))
    missing = [
        name for name in SAID[page].split() if not re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", told)
    ]
    assert missing == []


NEVER = {one.name: one.never for one in (*TYPES.values(), *RENAMED) if one.never is not None}
NEVER_SENT = "Formats: opencode's documentation / Events that are never sent"
EVENT_ROWS = [
    row for row in ROWS if row.section.endswith((" Events", "The event bus", NEVER_SENT)) and row.name
]


@pytest.mark.parametrize("row", EVENT_ROWS, ids=lambda row: f"{row.place} {row.name}")
def test_an_events_row_says_what_the_code_says(row: Row) -> None:
    assert row.name in TYPES or row.name in {older.name for older in RENAMED}
    why = NEVER.get(row.name)
    assert (row.does == f"Never sent: {why}.") == (why is not None), row.does


def test_every_event_that_is_never_sent_has_a_row() -> None:
    assert sorted(row.name for row in of(NEVER_SENT)) == sorted(NEVER)


@pytest.mark.parametrize("row", [row for row in ROWS if row.section == INTERFACE], ids=lambda row: row.name)
def test_a_hooks_row_names_a_hook_point_or_a_key_of_a_plugin(row: Row) -> None:
    point = points.CORE.find(row.name)
    assert row.name in NOT_POINTS or (point is not None and point.name == row.name)


def test_each_section_of_the_sources_has_rows() -> None:
    sources = ("evolve: ", "self: ", "Formats: ", "Agent hooks: ", "Plugin touchpoints: ")
    sections = {row.section for row in ROWS if row.section.startswith(sources)}
    assert sections == {
        *(
            f"evolve: opencode-evolve's README / {name}"
            for name in (
                *("Workspace and settings", "Protocol", "Hooks", "What each hook is given"),
                "Tools, permissions and git",
            )
        ),
        *(
            f"Formats: opencode's documentation / {name}"
            for name in (
                *("Agents", "Commands", "Events", "Message parts", "Plugins"),
                "Events that are never sent",
            )
        ),
        *(f"self: nanobot's tool / {name}" for name in ("Actions", "Safety")),
        "Agent hooks: a request for OpenHands",
        *(
            f"Plugin touchpoints: opencode's source / {name}"
            for name in (
                *(
                    "1. The hook system",
                    "2. Messages",
                    "3. The database",
                    "4. Changing messages",
                    "5. Loading",
                ),
                *("6. Children and workspaces", "7. The event bus", "Summary: a blueprint"),
            )
        ),
    }
