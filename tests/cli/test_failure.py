import errno
import os
import subprocess
import sys

import pytest

from instar.cli.door import Failure, failure, one_line_errors
from instar.definitions.agent import UnknownAgent
from instar.plugin import Invalid, NotFound
from instar.provider.resolve import NoModel
from instar.settings.config import ConfigError
from instar.store import StoreError
from instar.wire.document import DocumentError


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (DocumentError("a.json", 2, 3, "expected a value, found }"), 2, "a.json:2:3: expected"),
        (ConfigError("a.json", ("model",), "expected a string"), 2, "model"),
        (UnknownAgent("there is no agent x"), 2, "no agent x"),
        (NotFound("Session not found: ses_1"), 2, "ses_1"),
        (Invalid("a prompt needs a part"), 2, "needs a part"),
        (ValueError("a model is named as provider/model"), 2, "provider/model"),
        (NoModel("no model"), 1, "no model"),
        (caused(Invalid("no model"), NoModel("no model")), 1, "no model"),
        (StoreError("the database is newer"), 1, "newer"),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied"),
        (OSError(errno.EMFILE, "Too many open files", "/x"), 1, "/x: Too many open files; allow more"),
        (MemoryError(), 1, "gives no more memory"),
        (KeyError("surprise"), 1, "unexpected error: KeyError: 'surprise' (--log-level DEBUG"),
    ],
)
def test_what_went_wrong_is_a_text_and_an_exit_code(error, code, text):
    found = failure(error)
    assert found.code == code
    assert text in found.message


def test_an_error_of_several_lines_is_printed_as_one(machine):
    done = machine.instar("auth", "logout", "one\n  two")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    done = machine.instar("session", "show", "one\n  two")
    assert (done.returncode, done.stderr) == (2, "instar: Session not found: one two\n")


def test_with_debug_the_error_itself_is_raised():
    with pytest.raises(KeyError), one_line_errors(traceback=True):
        raise KeyError("x")
    with pytest.raises(Failure), one_line_errors(traceback=False):
        raise KeyError("x")


@pytest.mark.parametrize(
    "arguments",
    [("run", "-m", "scripted/echo", "hi"), ("session", "list"), ("trust",), ("auth", "login", "openai")],
    ids=" ".join,
)
@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_file_where_the_data_folder_should_be_is_one_line_that_says_what_to_do(machine, arguments, below):
    path = machine.write_home("file", "")
    machine.environment["INSTAR_DATA"] = f"{path}{below}"
    done = machine.instar(*arguments, stdin=b"sk-x")
    assert done.returncode == 1
    assert done.stderr.startswith("instar: ")
    assert done.stderr.count("\n") == 1
    assert f"{path}" in done.stderr
    assert "move it away" in done.stderr
    assert "INSTAR_DATA" in done.stderr
    assert "Errno" not in done.stderr


def test_a_limit_on_the_size_of_files_is_named(machine):
    limited = 'ulimit -f 100; exec "$@"'
    command = ["sh", "-c", limited, "sh", sys.executable, "-m", "instar", "run", "-m", "scripted/echo", "hi"]
    done = subprocess.run(command, cwd=machine.project, env=machine.environment, capture_output=True)
    assert done.returncode == 1
    assert b"ulimit -f" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_home_that_cannot_be_written_is_said_and_another_data_folder_serves(clean_environment, tmp_path):
    home, folder = tmp_path / "home", tmp_path / "work"
    home.chmod(0o555)
    folder.mkdir()
    for one in (tmp_path, *tmp_path.parents):
        if one.is_relative_to(tmp_path.parents[2]):
            one.chmod(0o755)
    folder.chmod(0o777)
    # Root may write everywhere, so somebody else runs it, who may read all as root may.
    nobody = [
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]
    command = [
        *(nobody if os.geteuid() == 0 else []),
        sys.executable,
        "-m",
        "instar",
        "run",
        "-m",
        "scripted/echo",
        "hello",
    ]

    def run(**more):
        return subprocess.run(
            command,
            cwd=folder,
            env={**clean_environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    refused = run()
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
    assert "Permission denied" in refused.stderr
    assert "INSTAR_DATA=FOLDER" in refused.stderr
    served = run(INSTAR_DATA=str(folder / "data"))
    assert (served.returncode, served.stdout) == (0, "hello\n"), served.stderr
    assert not list(home.iterdir())
