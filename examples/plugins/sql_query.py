"""A tool: asks an SQLite database of the project a question, and can never change it."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from instar.plugin import Ask, Hooks, PluginInput, Tool, ToolContext, ToolFailure

ROWS = 100
SECONDS = 5.0
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


async def sql_query(input: PluginInput, options: dict[str, Any]) -> Hooks:
    """Offer the tool; each database is a pattern of the permission ``sql_query``."""
    parameters = {
        "type": "object",
        "properties": {"database": {"type": "string"}, "query": {"type": "string"}},
        "required": ["database", "query"],
        "additionalProperties": False,
    }
    text = f"Run one SELECT on an SQLite file of the project. At most {ROWS} rows come back."
    return {"tool": {"sql_query": Tool(text, parameters, _execute, permissions)}}


def permissions(args: dict[str, Any], context: ToolContext) -> list[Ask]:
    """Ask for the file that is read."""
    return [Ask("sql_query", [args["database"]], metadata=args)]


async def _execute(args: dict[str, Any], context: ToolContext) -> str:
    """Return the rows as a table with tabs. Raises `ToolFailure`, which the model reads."""
    path = (context.directory / args["database"]).resolve()
    if not path.is_relative_to(context.directory.resolve()) or not path.is_file():
        raise ToolFailure(f"there is no database {args['database']} below {context.directory}")
    try:
        return await asyncio.to_thread(rows, path, args["query"])
    except sqlite3.Error as error:
        raise ToolFailure(f"SQLite says: {error}") from error


def rows(path: Path, query: str) -> str:
    """Read with SQLite's own guards: a read-only file, reading statements alone, a time limit."""
    until = time.monotonic() + SECONDS
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
        )
        connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        cursor = connection.execute(query)
        found = cursor.fetchmany(ROWS + 1)
        head = "\t".join(column[0] for column in cursor.description or ())
    lines = [head, *("\t".join(map(str, row)) for row in found[:ROWS])]
    return "\n".join([*lines, "(more rows were left out)"] if len(found) > ROWS else lines)
