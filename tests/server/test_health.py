import os
import socket
import subprocess
import sys
import threading

import pytest
from tests.server.conftest import PASSWORD

from instar.server.health import main, problem


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is well may take its time here: the machine does other things too."""
    monkeypatch.setattr("instar.server.health.PATIENCE", 30.0)


@pytest.mark.slow
def test_a_server_that_is_well_is_well_for_who_knows_the_password(shared):
    assert problem(shared.url, {"INSTAR_SERVER_PASSWORD": PASSWORD}) is None
    assert problem(shared.url, {"INSTAR_SERVER_PASSWORD": "wrong"}) == f"{shared.url} answers 401"


@pytest.mark.slow
def test_it_finds_the_password_where_the_server_keeps_it_and_makes_none(serve, clean_environment, tmp_path):
    served = serve(environment={"INSTAR_SERVER_PASSWORD": ""})
    assert problem(served.url, clean_environment) is None
    nobody = tmp_path / "nobody"
    assert problem(served.url, {"HOME": str(nobody)}) == f"{served.url} answers 401"
    assert not nobody.exists()


@pytest.mark.slow
def test_it_asks_at_a_unix_socket(serve, tmp_path):
    path = tmp_path / "s"
    serve("--socket", str(path))
    assert problem(f"unix://{path}", {"INSTAR_SERVER_PASSWORD": PASSWORD}) is None
    assert "does not answer" in (problem(f"unix://{path}x", {}) or "")


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:4096", "", "http://127.0.0.1:1", "http://[", "http://x:y"]
)
def test_an_address_that_is_none_or_where_nobody_listens_is_one_line(url, capsys):
    assert main([url], {}) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("instar: ")


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\n\r\nhello", b"HTTP/1.1 200 OK\r\n\r\n[]", b"SSH-2.0\r\n", b""]
)
def test_another_program_at_that_port_is_not_well(answer):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def reply() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        assert problem(f"http://127.0.0.1:{other.getsockname()[1]}", {}) is not None
        thread.join()


@pytest.mark.slow
def test_as_a_program_its_exit_code_is_the_answer(shared):
    def code(url: str) -> int:
        environment = {"INSTAR_SERVER_PASSWORD": PASSWORD, "PATH": os.environ["PATH"]}
        command = [sys.executable, "-m", "instar.server.health", url]
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=20, check=False
        ).returncode

    assert (code(shared.url), code("http://127.0.0.1:1")) == (0, 1)
