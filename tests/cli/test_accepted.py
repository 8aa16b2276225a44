"""Code that came into a trusted folder after the person looked runs in no later `instar`."""

import importlib.util
import json
import marshal
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

NODE = pytest.mark.skipif(shutil.which("node") is None, reason="plugins in JavaScript are run by node")
PYTHON = 'open({path!r}, "a").write({word!r})\n\n\nasync def mine(input, options=None):\n    return {{}}\n'
TOOL = 'open({path!r}, "a").write({word!r})\n\n\n"""Adds."""\nasync def execute(args, context):\n    return "2"\n'
SCRIPT = (
    'import {{ appendFileSync }} from "node:fs"\n'
    "appendFileSync({path!r}, {word!r})\nexport const mine = async () => ({{}})\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The file that code of these tests leaves behind when it runs."""
    return tmp_path / "trace"


def ran(trace: Path) -> str:
    """What ran so far, a letter for each."""
    return trace.read_text() if trace.exists() else ""


def writes(machine, files: dict[str, str]):
    """Let the model write files of the project, and return the run."""
    calls = [
        f"mkdir -p {Path(name).parent} && printf %s {shlex.quote(text)} > {name}"
        for name, text in files.items()
    ]
    turns = [f"== turn\ntool: bash {json.dumps({'command': call})}\n" for call in calls]
    machine.script("\n".join([*turns, "== turn\ntext: written\n"]))
    done = machine.run("go")
    assert (done.returncode, done.stdout) == (0, "written\n"), done.stderr
    for name, text in files.items():
        assert (machine.project / name).read_text() == text
    return done


def says(machine):
    machine.script("== turn\ntext: hello\n")
    done = machine.run("hi")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    return done


@pytest.mark.slow
@NODE
def test_code_that_the_model_writes_runs_in_no_later_run_until_the_person_trusts_it(machine, trace):
    machine.instar("trust")
    path = str(trace)
    files = {
        ".instar/plugin/evil.py": PYTHON.format(path=path, word="a"),
        ".opencode/plugin/x.ts": SCRIPT.format(path=path, word="b"),
        ".instar/tool/x.py": TOOL.format(path=path, word="c"),
        ".opencode/tools/y.js": SCRIPT.format(path=path, word="d"),
        "lib/listed.py": PYTHON.format(path=path, word="e"),
        "instar.json": '{"plugin": ["./lib/listed.py"]}',
    }
    writes(machine, files)
    done = says(machine)
    assert ran(trace) == ""
    left = done.stderr
    for name in (*files, 'instar.json: plugin "./lib/listed.py"'):
        assert name in left
    assert f"(new): not what you trusted in {machine.project}" in left
    assert f"instar trust {machine.project}" in left
    doctor = machine.instar("doctor").stdout
    assert ".instar/plugin/evil.py (new)" in doctor
    said = machine.instar("trust").stdout
    assert ".opencode/plugin/x.ts: runs as it stands there now" in said
    done = says(machine)
    assert "not what you trusted" not in done.stderr
    assert sorted(ran(trace)) == ["a", "b", "c", "d", "e"]


@pytest.mark.slow
def test_a_plugin_that_was_changed_is_skipped_and_its_neighbours_run(machine, trace):
    path = machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.write(".instar/plugins/two.py", PYTHON.format(path=str(trace), word="2"))
    machine.instar("trust")
    writes(machine, {".instar/plugins/one.py": PYTHON.format(path=str(trace), word="x")})
    trace.unlink()
    assert f"{path.relative_to(machine.project)} (changed)" in says(machine).stderr
    assert ran(trace) == "2"
    path.write_text(PYTHON.format(path=str(trace), word="1"))
    assert "not what you trusted" not in says(machine).stderr
    assert ran(trace) == "212"


def test_bytecode_that_was_planted_beside_accepted_code_is_not_run(machine, trace):
    harmless = "async def mine(input, options=None):\n    from . import part\n    return {}\n"
    folder = machine.write("mine/__init__.py", harmless).parent
    machine.write("mine/part.py", "")
    machine.write(".instar/plugins/one.py", harmless.replace("    from . import part\n", ""))
    machine.write("instar.json", '{"plugin": ["./mine"]}')
    machine.instar("trust")
    for path in (folder / "__init__.py", folder / "part.py", machine.project / ".instar/plugins/one.py"):
        evil = compile(PYTHON.format(path=str(trace), word="x"), str(path), "exec")
        place = Path(importlib.util.cache_from_source(str(path)))
        place.parent.mkdir(exist_ok=True)
        found = path.stat()
        head = struct.pack("<LLL", 0, int(found.st_mtime), found.st_size)
        place.write_bytes(importlib.util.MAGIC_NUMBER + head + marshal.dumps(evil))
    done = says(machine)
    assert (ran(trace), done.stderr) == ("", "")


@pytest.mark.slow
def test_what_a_plugin_that_is_a_folder_imports_is_code_too(machine, trace):
    machine.write(
        "mine/__init__.py", "from . import part\n\nasync def mine(input, options=None):\n    return {}\n"
    )
    machine.write("mine/part.py", f"open({str(trace)!r}, 'a').write('1')\n")
    machine.write("instar.json", '{"plugin": ["./mine"]}')
    machine.instar("trust")
    says(machine)
    assert ran(trace) == "1"
    machine.write("mine/part.py", f"open({str(trace)!r}, 'a').write('x')\n")
    assert "mine/part.py (changed)" in says(machine).stderr
    machine.write("mine/part.py", f"open({str(trace)!r}, 'a').write('1')\n")
    machine.write("mine/part/__init__.py", f"open({str(trace)!r}, 'a').write('x')\n")
    assert "mine/part/__init__.py (new)" in says(machine).stderr
    assert ran(trace) == "1"


@pytest.mark.slow
@NODE
def test_what_a_file_of_javascript_imports_from_beside_it_is_code_too(machine, trace):
    text = 'import "./lib/part.js"\nexport const mine = async () => ({})\n'
    part = SCRIPT.format(path=str(trace), word="1")
    machine.write(".opencode/plugin/mine.js", text)
    machine.write(".opencode/plugin/lib/part.js", part)
    machine.instar("trust")
    says(machine)
    assert ran(trace) == "1"
    writes(machine, {".opencode/plugin/lib/part.js": part.replace('"1"', '"x"').replace("'1'", "'x'")})
    trace.unlink()
    assert ".opencode/plugin/lib/part.js (changed)" in says(machine).stderr
    assert ran(trace) == ""


@pytest.mark.slow
def test_an_entry_of_the_settings_that_came_later_is_left_out_and_takes_nothing_of_the_persons_away(
    machine, trace
):
    own = machine.write_home("own.py", PYTHON.format(path=str(trace), word="o"))
    machine.write_home("instar.json", json.dumps({"plugin": [str(own)]}))
    machine.write("instar.json", "{}")
    machine.instar("trust")
    entries = [[str(own), {"loose": True}], "some-package-of-npm", ["evolve", {"workspace": "elsewhere"}]]
    machine.write("instar.json", json.dumps({"plugin": entries}))
    left = says(machine).stderr
    for spec in (str(own), "some-package-of-npm", "evolve"):
        assert f'instar.json: plugin "{spec}" (new)' in left
    assert "npm" in left
    assert "failed" not in left
    assert ran(trace) == "o"
    assert (
        "some-package-of-npm"
        not in machine.instar("config", "show", "plugin").stdout.partition("left out")[0]
    )


@pytest.mark.slow
def test_options_that_changed_are_new_code_and_so_is_a_file_that_they_refer_to(machine, trace):
    text = f"open({str(trace)!r}, 'a').write(options['word'])"
    text = f"async def mine(input, options=None):\n    {text}\n    return {{}}\n"
    machine.write("mine.py", text)
    machine.write("word.txt", "a")
    machine.write("instar.json", '{"plugin": [["./mine.py", {"word": "{file:word.txt}{env:MORE}"}]]}')
    machine.environment["MORE"] = "1"
    machine.instar("trust")
    machine.environment["MORE"] = "2"
    says(machine)
    assert ran(trace) == "a2", "a variable is the person's own"
    machine.write("word.txt", "x")
    assert 'instar.json: plugin "./mine.py" (changed)' in says(machine).stderr
    machine.write("instar.json", '{"plugin": [["./mine.py", {"word": "x"}]]}')
    assert 'instar.json: plugin "./mine.py" (changed)' in says(machine).stderr
    assert ran(trace) == "a2"


@pytest.mark.slow
def test_a_folder_that_an_older_instar_trusted_has_no_accepted_code(machine, trace):
    machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.instar("trust")
    kept = Path(machine.environment["XDG_DATA_HOME"]) / "instar" / "trust.json"
    old = json.loads(kept.read_text())
    del old["folders"][str(machine.project)]["code"]
    kept.write_text(json.dumps(old))
    assert f"instar trust {machine.project}" in says(machine).stderr
    assert ran(trace) == ""
    machine.instar("trust")
    says(machine)
    assert ran(trace) == "1"


def test_a_machine_that_trusts_all_and_a_persons_own_plugins_are_not_asked_about(machine, trace):
    machine.write_home("plugins/own.py", PYTHON.format(path=str(trace), word="o"))
    machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.environment["INSTAR_TRUST"] = "all"
    assert "not what you trusted" not in says(machine).stderr
    assert sorted(ran(trace)) == ["1", "o"]


@pytest.mark.slow
def test_a_folder_below_a_trusted_one_brings_code_once_it_is_trusted_itself(machine, trace):
    subprocess.run(["git", "init", "-q", machine.project], check=True)
    below = machine.write("sub/.instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.instar("trust")
    machine.script("== turn\ntext: hello\n")
    assert f"instar trust {machine.project}/sub" in machine.run("--dir", "sub", "hi").stderr
    assert ran(trace) == ""
    machine.instar("trust", "sub")
    machine.run("--dir", "sub", "hi")
    assert ran(trace) == "1"
    below.write_text("x")
    assert "one.py (changed)" in machine.run("--dir", "sub", "hi").stderr


@pytest.mark.slow
def test_in_a_worktree_for_sessions_the_code_counts_that_was_accepted_in_the_repository(machine, trace):
    machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    subprocess.run(["git", "init", "-q"], cwd=machine.project, check=True)
    subprocess.run(["git", "add", "-A"], cwd=machine.project, check=True)
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *name, "commit", "-qm", "one"], cwd=machine.project, check=True)
    machine.instar("trust")
    evil = PYTHON.format(path=str(trace), word="x")
    call = json.dumps({"filePath": ".instar/plugins/evil.py", "content": evil})
    machine.script(f"== turn\ntool: write {call}\n== turn\ntext: written\n")
    done = machine.run("--worktree", "apart", "go")
    assert done.stdout == "written\n", done.stderr
    (made,) = Path(machine.environment["XDG_DATA_HOME"]).rglob("evil.py")
    first = ran(trace)
    assert set(first) == {"1"}
    machine.script("== turn\ntext: hello\n")
    done = machine.run("--dir", str(made.parents[2]), "hi")
    assert ".instar/plugins/evil.py (new)" in done.stderr
    assert ran(trace) == f"{first}1"


@pytest.mark.slow
def test_a_folder_that_init_made_runs_what_its_settings_name(machine):
    machine.instar("init", "mine")
    done = machine.run("--dir", "mine", "hi")
    assert "not what you trusted" not in done.stderr
    settings = machine.project / "mine" / "instar.json"
    settings.write_text(settings.read_text().replace("./workspace", "./other"))
    assert 'instar.json: plugin "evolve" (changed)' in machine.run("--dir", "mine", "hi").stderr
