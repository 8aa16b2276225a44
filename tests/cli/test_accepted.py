"""What came into a trusted folder after a person accepted it steers no later `instar`."""

import importlib.util
import json
import marshal
import os
import shlex
import shutil
import struct
import subprocess
import sys
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
    for name in files:
        assert f"{name} (new)" in left
    assert f"(new): not as accepted in {machine.project}" in left
    assert f"instar trust {machine.project}" in left
    assert len(left.splitlines()) == 1
    doctor = machine.instar("doctor").stdout
    assert ".instar/plugin/evil.py (new)" in doctor
    said = machine.instar("trust").stdout
    assert ".opencode/plugin/x.ts: a plugin, which runs as it stands there now" in said
    done = says(machine)
    assert "not as accepted" not in done.stderr
    assert sorted(ran(trace)) == ["a", "b", "c", "d", "e"]


@pytest.mark.slow
def test_a_plugin_that_was_changed_runs_as_it_was_accepted(machine, trace):
    path = machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.write(".instar/plugins/two.py", PYTHON.format(path=str(trace), word="2"))
    machine.instar("trust")
    writes(machine, {".instar/plugins/one.py": PYTHON.format(path=str(trace), word="x")})
    trace.unlink()
    assert f"{path.relative_to(machine.project)} (changed)" in says(machine).stderr
    assert ran(trace) == "12"
    path.write_text(PYTHON.format(path=str(trace), word="1"))
    assert "not as accepted" not in says(machine).stderr
    assert ran(trace) == "1212"
    path.unlink()
    assert f"{path.relative_to(machine.project)} (gone)" in says(machine).stderr
    assert ran(trace) == "121212"


@pytest.mark.slow
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
    assert ran(trace) == "111"


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
    assert ran(trace) == "1"


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
    assert "instar.json (changed)" in left
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
    assert "word.txt (changed)" in says(machine).stderr
    machine.write("instar.json", '{"plugin": [["./mine.py", {"word": "x"}]]}')
    assert "instar.json (changed)" in says(machine).stderr
    assert ran(trace) == "a2a2a2"


@pytest.mark.slow
def test_a_folder_that_an_older_instar_trusted_has_no_accepted_code(machine, trace):
    machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.instar("trust")
    data = Path(machine.environment["XDG_DATA_HOME"]) / "instar"
    old = json.loads((data / "trust.json").read_text())
    old["folders"][str(machine.project)] |= {"code": {".instar/plugins/one.py": "0"}, "guards": {}}
    (data / "trust.json").write_text(json.dumps(old))
    shutil.rmtree(data / "accepted.git")
    assert f"instar trust {machine.project}" in says(machine).stderr
    assert ran(trace) == ""
    machine.instar("trust")
    says(machine)
    assert ran(trace) == "1"


def test_a_machine_that_trusts_all_and_a_persons_own_plugins_are_not_asked_about(machine, trace):
    machine.write_home("plugins/own.py", PYTHON.format(path=str(trace), word="o"))
    machine.write(".instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
    machine.environment["INSTAR_TRUST"] = "all"
    assert "not as accepted" not in says(machine).stderr
    assert sorted(ran(trace)) == ["1", "o"]


@pytest.mark.slow
def test_what_is_below_a_trusted_folder_is_accepted_with_it_and_later_by_itself(machine, trace):
    subprocess.run(["git", "init", "-q", machine.project], check=True)
    machine.write("first/.instar/plugins/one.py", PYTHON.format(path=str(trace), word="f"))
    assert "first/.instar/plugins/one.py: a plugin" in machine.instar("trust").stdout
    machine.script("== turn\ntext: hello\n")
    assert machine.run("--dir", "first", "hi").stderr == ""
    assert trace.read_text() == "f"
    trace.unlink()
    below = machine.write("sub/.instar/plugins/one.py", PYTHON.format(path=str(trace), word="1"))
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
    assert "not as accepted" not in done.stderr
    settings = machine.project / "mine" / "instar.json"
    settings.write_text(settings.read_text().replace("./workspace", "./other"))
    assert "instar.json (changed)" in machine.run("--dir", "mine", "hi").stderr


# -- attacks by a model that obeys ---------------------------------------------------------------------


@pytest.mark.slow
def test_settings_that_the_model_writes_loosen_no_rule_in_the_same_run_or_a_later_one(machine, trace):
    machine.write_home(
        "instar.json", '{"permission": {"bash": "deny", "write": "allow", "external_directory": "deny"}}'
    )
    machine.write("opencode.json", '{"permission": {"webfetch": "deny"}}')
    machine.instar("trust")
    text = {
        "permission": {"bash": "allow", "external_directory": "allow"},
        "model": "evil/x",
        "plugin": ["./evil.py"],
    }
    written = json.dumps({"filePath": "instar.json", "content": json.dumps(text)})
    code = json.dumps({"filePath": "evil.py", "content": PYTHON.format(path=str(trace), word="x")})
    bash = json.dumps({"command": f"touch {trace}"})
    machine.script(
        f"== turn\ntool: write {written}\n== turn\ntool: write {code}\n== turn\ndelay: 3s\ntool: bash {bash}\n"
        "== turn\ntext: done\n"
    )
    machine.run("go")
    assert (machine.project / "instar.json").exists()
    machine.script(f"== turn\ntool: bash {bash}\n== turn\ntext: done\n")
    done = machine.run("again")
    assert "instar.json (new)" in done.stderr
    assert not trace.exists()


@pytest.mark.slow
def test_a_rule_of_the_persons_imports_and_finds_nothing_of_the_folder(machine, trace):
    for name in ("json.py", "bin/mytool"):
        machine.write(
            name, f"#!/bin/sh\ntouch {trace}\n" if "bin" in name else f"open({str(trace)!r}, 'a')\n"
        )
    (machine.project / "bin/mytool").chmod(0o755)
    machine.environment["PATH"] = f"{machine.project}/bin:{machine.environment['PATH']}"
    rules = [
        {"type": "command", "command": "python3 -c 'import json; print(json.dumps({}))'"},
        {"type": "command", "command": "mytool || exit 0"},
    ]
    machine.write_home("instar.json", json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": rules}]}}))
    says(machine)
    assert not trace.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "./check.sh",
        "sh check.sh",
        '"$CLAUDE_PROJECT_DIR"/check.sh',
        '"$CLAUDE_PROJECT_DIR/check.sh" x',
        "true && bash -c './check.sh x'",
        "cat ./data.txt | ./check.sh",
    ],
)
def test_a_rules_program_in_the_folder_runs_as_it_was_accepted(machine, trace, command):
    program = machine.write("check.sh", '#!/bin/sh\necho \'{"systemMessage": "accepted"}\'\n')
    program.chmod(0o755)
    machine.write("data.txt", "")
    rules = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}}
    machine.write(".claude/settings.json", json.dumps(rules))
    machine.instar("trust")
    shown = machine.instar("hooks", "test", "UserPromptSubmit", "--prompt", "x")
    assert "message: accepted" in shown.stdout, shown.stdout + shown.stderr
    writes(machine, {"check.sh": '#!/bin/sh\necho \'{"systemMessage": "evil"}\'\n'})
    shown = machine.instar("hooks", "test", "UserPromptSubmit", "--prompt", "x")
    assert "message: accepted" in shown.stdout, shown.stdout + shown.stderr
    assert says(machine).stderr.startswith("instar: check.sh (changed): not as accepted")
    machine.write("data.txt", "x")
    assert "data.txt" not in says(machine).stderr


@pytest.mark.slow
def test_rules_that_the_model_writes_are_not_heard_and_an_accepted_one_stays(machine):
    rule = {"type": "command", "command": "echo no >&2; exit 2"}
    rules = {"PreToolUse": [{"matcher": "bash", "hooks": [rule]}]}
    machine.write(".instar/hooks.json", json.dumps({"hooks": rules}))
    machine.instar("trust")
    loose = {"PreToolUse": [{"hooks": [{"type": "command", "command": 'echo \'{"decision": "allow"}\''}]}]}
    for text in (json.dumps({"hooks": loose}), "{}", None):
        path = machine.project / ".instar/hooks.json"
        path.unlink() if text is None else path.write_text(text)
        shown = machine.instar(
            "hooks", "test", "PreToolUse", "--tool", "bash", "--input", '{"command": "ls"}'
        )
        assert "decision: deny" in shown.stdout


@pytest.mark.slow
def test_what_grants_in_markdown_is_heard_as_it_was_accepted_and_other_text_as_it_stands(machine):
    agent = "---\ndescription: one\npermission:\n  bash: deny\n---\nBe kind.\n"
    path = machine.write(".opencode/agent/helper.md", agent)
    machine.write(".opencode/command/look.md", "Look around.\n")
    machine.instar("trust")

    def shown(name="helper"):
        return machine.instar("config", "show", f"agent.{name}").stdout

    path.write_text(agent.replace("Be kind.", "Be short.").replace("one", "two"))
    assert "Be short." in shown()
    assert says(machine).stderr == ""
    path.write_text(agent.replace("deny", "allow").replace("Be kind.", "Be evil."))
    assert "Be kind." in shown()
    assert "deny" in shown()
    assert ".opencode/agent/helper.md (changed)" in says(machine).stderr
    machine.write(".opencode/agent/new.md", agent.replace("deny", "allow"))
    machine.write(".opencode/agent/plain.md", "---\ndescription: plain\n---\nHello.\n")
    machine.write(".opencode/command/look.md", "Look: !`touch evil`\n")
    assert "Hello." in shown("plain")
    assert "Be kind." not in shown("new").partition("left out")[0]
    assert "Look around." in machine.instar("config", "show", "command.look").stdout
    assert ".opencode/agent/new.md (new), .opencode/command/look.md (changed)" in says(
        machine
    ).stderr.replace(".opencode/agent/helper.md (changed), ", "")


@pytest.mark.slow
@NODE
def test_javascript_imports_from_the_folder_only_what_was_accepted(machine, trace):
    part = SCRIPT.format(path=str(trace), word="1")
    machine.write("lib/part.ts", part)
    machine.write("node_modules/kept/package.json", '{"name": "kept", "main": "index.js", "type": "module"}')
    machine.write("node_modules/kept/index.js", SCRIPT.format(path=str(trace), word="2"))
    late = 'import("../../lib/late.js").catch(() => 0)\n'
    machine.write(
        ".opencode/plugin/mine.js",
        f'import "../../lib/part.ts"\nimport "kept"\n{late}export const mine = async () => ({{}})\n',
    )
    machine.instar("trust")
    says(machine)
    assert ran(trace) == "12"
    evil = SCRIPT.format(path=str(trace), word="x")
    writes(machine, {"lib/part.ts": evil, "node_modules/kept/index.js": evil, "lib/late.js": evil})
    trace.unlink()
    assert "lib/part.ts (changed)" in says(machine).stderr
    assert ran(trace) == "12"


@pytest.mark.slow
@NODE
def test_a_plugin_of_another_folder_imports_the_packages_beside_it_as_they_were_accepted(
    machine, trace, tmp_path
):
    checkout = tmp_path / "checkout"
    for name, needs in (("first", "second"), ("second", None)):
        package = checkout / "node_modules" / name
        package.mkdir(parents=True)
        described = {
            "name": name,
            "type": "module",
            "main": "index.js",
            "dependencies": {needs: "1"} if needs else {},
        }
        (package / "package.json").write_text(json.dumps(described))
        brings = f'import "{needs}"\n' if needs else ""
        (package / "index.js").write_text(brings + SCRIPT.format(path=str(trace), word=name[0]))
    (checkout / "dist").mkdir()
    (checkout / "dist" / "mine.js").write_text('import "first"\nexport const mine = async () => ({})\n')
    machine.write("opencode.json", json.dumps({"plugin": [(checkout / "dist" / "mine.js").as_uri()]}))
    machine.instar("trust")
    assert "skipped" not in says(machine).stderr
    assert ran(trace) == "sf"
    changed = checkout / "node_modules" / "second" / "index.js"
    changed.write_text(SCRIPT.format(path=str(trace), word="x"))
    trace.unlink()
    says(machine)
    assert ran(trace) == "sf"


def test_a_module_of_the_folder_does_not_stand_in_for_one_of_pythons_in_instar_itself(machine, trace):
    machine.write("json.py", f"open({str(trace)!r}, 'a')\n")
    assert machine.fresh("config", "show").returncode == 0
    assert not trace.exists()


@pytest.mark.slow
def test_a_servers_program_in_the_folder_runs_as_it_was_accepted(machine, trace):
    text = "import os, sys\nopen({!r}, 'a').write({!r})\n"
    machine.write("tools/server.py", text.format(str(trace), "1"))
    command = [sys.executable, "tools/server.py"]
    machine.write("opencode.json", json.dumps({"mcp": {"mine": {"type": "local", "command": command}}}))
    machine.instar("trust")
    shown = machine.instar("config", "show", "mcp.mine.command").stdout
    assert "/accepted/" in shown
    machine.write("tools/server.py", text.format(str(trace), "x"))
    assert "tools/server.py (changed)" in says(machine).stderr
    assert "x" not in ran(trace)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_what_was_accepted_can_be_read_and_not_written_by_what_runs_for_the_model(machine, level):
    machine.write_home("instar.json", json.dumps({"shield": {"level": level}}))
    program = machine.write("check.sh", "#!/bin/sh\ntrue\n")
    program.chmod(0o755)
    rules = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "./check.sh"}]}]}}
    machine.write(".instar/hooks.json", json.dumps(rules))
    machine.instar("trust")
    (kept,) = (Path(machine.environment["XDG_DATA_HOME"]) / "instar/accepted").rglob("check.sh")
    command = f"cat {kept}; chmod 777 {kept}; echo evil > {kept}; rm -f {kept}; touch {kept}.more; mv {kept.parent} x"
    machine.script(
        f"== turn\ntool: bash {json.dumps({'command': command})}\n== turn\ntext: {{{{last.tool.output}}}}\n"
    )
    assert "#!/bin/sh" in machine.run("--auto", "go").stdout
    assert kept.read_text() == "#!/bin/sh\ntrue\n"
    assert [*kept.parent.glob("check*")] == [kept]


@pytest.mark.slow
def test_names_that_no_text_can_hold_and_a_flood_of_files_stop_no_run(machine):
    machine.instar("trust")
    folder = machine.write(".instar/plugin/a.py", "1").parent
    (folder / os.fsdecode(b"\xff.py")).write_text("1")
    for number in range(300):
        (folder / f"n{number}.py").write_text("1")
    (machine.project / "opencode.json").mkdir()
    os.mkfifo(machine.project / "instar.json")
    said = says(machine).stderr
    assert (said.count("\n"), said.count("(new)"), "and 290 more" in said) == (1, 12, True)
    done = machine.instar("trust", "--json")
    assert done.returncode == 0, done.stderr
    assert "not as accepted" not in says(machine).stderr


@pytest.mark.slow
def test_no_secret_of_the_persons_comes_into_the_copy_by_a_link_or_with_the_home_folder(machine):
    data = Path(machine.environment["XDG_DATA_HOME"]) / "instar"
    data.mkdir(parents=True)
    (data / "auth.json").write_text('{"key": "tell-nobody"}')
    own = machine.write_home("instar.json", '{"username": "tell-nobody"}')
    for name, target in ((".opencode/agent/a.md", data / "auth.json"), (".instar/plugin/b.py", own)):
        (machine.project / name).parent.mkdir(parents=True)
        (machine.project / name).symlink_to(target)
    home = machine.home / ".opencode/opencode.json"
    home.parent.mkdir()
    home.write_text('{"small_model": "tell/nobody"}')
    assert machine.instar("trust").returncode == 0
    assert machine.instar("trust", str(machine.home)).returncode == 0
    kept = [path.read_bytes() for path in (data / "accepted").rglob("*") if path.is_file()]
    assert not any(b"tell" in text for text in kept)
    assert machine.instar("config", "show", "small_model", cwd=machine.home).stdout.startswith(
        'small_model = "tell/nobody"'
    )
