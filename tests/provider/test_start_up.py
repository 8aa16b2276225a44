"""What a run with the scripted model does not import: HTTP, the adapters of real providers, the MCP SDK."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from instar.cli import main
main({arguments!r}, lambda code: print(json.dumps([code, *sorted(sys.modules)]), file=sys.stderr))
"""


@pytest.mark.parametrize("arguments", [["run", "-m", "scripted/echo", "hello"], ["models", "--all"]])
def test_only_the_adapter_that_is_called_is_imported(clean_environment, tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=arguments)],
        env={**clean_environment, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    code, *modules = json.loads(done.stderr.splitlines()[-1])
    assert code in (0, None)
    assert done.stdout
    heavy = {"httpx2", "mcp", "opentelemetry", "pydantic_ai", "instar.mcp.link"}
    adapters = {f"instar.provider.{name}" for name in ("connection", "openai", "anthropic", "library")}
    assert not (heavy | adapters) & set(modules)


def test_an_argument_that_a_tool_does_not_know_imports_no_library_that_checks_schemas(
    clean_environment, tmp_path
):
    script = tmp_path / "script.txt"
    script.write_text(
        '== turn\ntool: glob {"pattern": "*.txt", "description": "lists"}\n\n== turn\ntext: done\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=["run", "-m", "scripted/any", "hello"])],
        env={**clean_environment, "INSTAR_SCRIPT": str(script)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert b"done" in done.stdout
    modules = json.loads(done.stderr.splitlines()[-1])
    assert "instar.tool.glob" in modules
    assert "jsonschema" not in modules
