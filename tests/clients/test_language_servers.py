"""The settings `formatter` and `lsp` with the programs that people use, and beside the real opencode."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.clients.model import Model
from tests.clients.programs import PATIENCE, Program, installed

from instar.plugins.files.formatter import FORMATTERS
from instar.testing import Machine, clean_environment, results

SERVERS = installed().parent / "servers"
"""Where `make test-clients` installed them."""
WRONG = 'x: int = "a"\ny = 1\n'
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write", {"filePath": "a.py", "content": WRONG}),
    ("edit", {"filePath": "a.py", "oldString": "y = 1", "newString": "y = 2"}),
]
TSCONFIG = '{"compilerOptions": {"strict": true}}'
TYPESCRIPT = {"tsconfig.json": TSCONFIG, "package-lock.json": "{}"}


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> str:
    """A ``PATH`` with these programs and ruff."""
    folders = [
        SERVERS / "node_modules" / ".bin",
        SERVERS / "python" / "bin",
        Path(sys.executable).parent,
    ]
    found = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    monkeypatch.setenv("PATH", found)
    return found


async def read(
    folder: Path,
    path: str,
    files: Mapping[str, str],
    *calls: tuple[str, Mapping[str, Any]],
    packages: str = "",
) -> tuple[list[str], Machine]:
    """Let instar's model make these calls in a project with these files; return what it reads of them.

    `packages` names what of npm's the project has: ``typescript``, or another version under that name.
    """
    environment = {
        **clean_environment(folder / "home"),
        "PATH": path,
        "PYTHONPATH": str(SERVERS / "python"),
    }
    machine = Machine(folder, environment)
    for name, text in files.items():
        machine.write(name, text)
    if packages:
        (machine.folder / "node_modules" / ".bin").mkdir(parents=True)
        tsc = SERVERS / "node_modules" / packages / "bin" / "tsc"
        (machine.folder / "node_modules" / ".bin" / "tsc").symlink_to(tsc)
        (machine.folder / "node_modules" / "typescript").symlink_to(SERVERS / "node_modules" / packages)
    machine.settings(formatter=True, lsp=True)
    turns = [f"== turn\ntool: {tool} {json.dumps(args)}\n" for tool, args in calls]
    machine.says("\n".join([*turns, "== turn\ntext: done\n"]))
    async with machine:
        runtime = await machine.open()
        session = await runtime.session()
        await runtime.start(session, "go")
        # The first start of a server takes its time on a busy machine: more than `ask` waits.
        async with asyncio.timeout(PATIENCE):
            while "session.idle" not in runtime.types():
                await asyncio.sleep(0.05)
        return results(await runtime.stored(session)), machine


FOUND = {
    "pyright": ({"pyproject.toml": ""}, "a.py", WRONG, r'ERROR \[1:10\] Type "Literal\[\'a\'\]" is not', ""),
    "typescript-language-server": (
        TYPESCRIPT,
        "a.ts",
        'const x: number = "a"\n',
        r"ERROR \[1:7\] Type 'string' is not assignable to type 'number'\.",
        "typescript",
    ),
    "tsc": (
        TYPESCRIPT,
        "a.ts",
        'const x: number = "a"\n',
        r"ERROR \[1:7\] Type 'string' is not assignable to type 'number'\.",
        "typescript-native",
    ),
    "clangd": (
        {},
        "a.c",
        "int main(void) { return y; }\n",
        r"ERROR \[1:25\] .*undeclared identifier 'y'",
        "",
    ),
}
"""By the server: the project's files, the file that is written, its text, what the model reads, packages."""


@pytest.mark.parametrize("name", FOUND)
async def test_the_model_reads_what_a_language_server_finds(tmp_path: Path, path: str, name: str) -> None:
    files, file, text, expected, packages = FOUND[name]
    call = ("write", {"filePath": file, "content": text})
    (output,), _ = await read(tmp_path / "machine", path, files, call, packages=packages)
    assert "LSP errors detected in this file, please fix:\n<diagnostics file=" in output
    assert re.search(expected, output)


FORMATTED = {
    "prettier": (
        {"package.json": '{"devDependencies": {"prettier": "3"}}'},
        "a.css",
        "a{color:red}\n",
        "a {\n  color: red;\n}\n",
    ),
    "clang-format": (
        {".clang-format": "BasedOnStyle: LLVM\n"},
        "a.h",
        "int  f( int a );\n",
        "int f(int a);\n",
    ),
    "ruff": ({"ruff.toml": ""}, "a.py", "x  =  1\n", "x = 1\n"),
}
"""By the formatter: the project's files, the file that is written, its text, and what becomes of that."""


@pytest.mark.parametrize("name", FORMATTED)
async def test_a_formatter_formats_what_the_model_writes(tmp_path: Path, path: str, name: str) -> None:
    files, file, text, expected = FORMATTED[name]
    (output,), machine = await read(
        tmp_path / "machine", path, files, ("write", {"filePath": file, "content": text})
    )
    assert (machine.folder / file).read_text() == expected
    assert f"{file} was formatted after that:\n" in output


@pytest.fixture
def opencode(tmp_path: Path, path: str) -> Iterator[tuple[Program, Model]]:
    """The real one, with both settings, and its model."""
    model = Model({"go": [*({"tools": [call]} for call in CALLS), {"text": ["done"]}]})
    program = Program(tmp_path / "opencode", {**model.settings(), "formatter": True, "lsp": True})
    yield program, model
    program.close()
    model.close()


async def test_what_the_model_reads_is_what_opencodes_reads(
    tmp_path: Path, path: str, opencode: tuple[Program, Model]
) -> None:
    program, model = opencode
    session = program.http.post("/session", json={}).json()["id"]
    prompt = {"parts": [{"type": "text", "text": "go"}]}
    program.http.post(f"/session/{session}/message", json=prompt, timeout=180)
    theirs = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    ours, machine = await read(tmp_path / "machine", path, {"pyproject.toml": ""}, *CALLS)
    # Of the first file opencode often reads nothing: it does not wait until the server has looked.
    assert ours[1].replace(str(machine.folder), "") == theirs[1].replace(str(program.project), "")
    formatters = {one["name"]: one["extensions"] for one in program.http.get("/formatter").json()}
    assert {name: list(one.extensions) for name, one in FORMATTERS.items()} == formatters
    assert program.http.get("/lsp").json() == [
        {"id": "pyright", "name": "pyright", "root": "", "status": "connected"}
    ]
