import os
import socket
import stat
from pathlib import Path

import pytest

from instar.server.listen import BindError, listen_at


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """A short path: the system takes no long ones."""
    monkeypatch.chdir(tmp_path)
    return Path("s")


def test_the_socket_is_its_owners_alone_and_so_is_a_folder_that_was_made_for_it(place):
    file = listen_at(place / "deep" / "x.sock")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(file.path))
    file.socket.close()
    file.remove()
    assert not file.path.exists()


def test_nobody_can_connect_before_the_socket_is_its_owners_alone(place, monkeypatch):
    modes = []
    listen = socket.socket.listen

    def listening(self, *given):
        modes.append(stat.S_IMODE(os.stat(self.getsockname()).st_mode))
        listen(self, *given)

    monkeypatch.setattr(socket.socket, "listen", listening)
    listen_at(place).socket.close()
    assert modes == [0o600]


def give_away(path: Path, monkeypatch) -> None:
    """Let a file be somebody else's: root can give it away, for another one they become somebody else."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


def test_the_folder_and_the_socket_of_another_user_are_refused(place, monkeypatch):
    place.mkdir()
    listen_at(place / "s").socket.close()
    before = (place / "s").lstat()
    with monkeypatch.context() as patch:
        give_away(place / "s", patch)
        with pytest.raises(BindError, match=r"another user's|others may put"):
            listen_at(place / "s")
    with monkeypatch.context() as patch:
        give_away(place, patch)
        with pytest.raises(BindError, match="others may put"):
            listen_at(place / "new")
    assert (place / "s").lstat().st_ino == before.st_ino
    assert os.listdir(place) == ["s"]


def test_a_socket_that_nobody_listens_at_is_replaced(place):
    listen_at(place).socket.close()
    assert place.exists()
    again = listen_at(place)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
    again.socket.close()


def test_a_socket_that_somebody_listens_at_stays(place):
    first = listen_at(place)
    with pytest.raises(BindError, match="another program does already"):
        listen_at(place)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
    first.socket.close()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_socket_is_not_touched(place, make):
    make(place)
    before = place.lstat()
    with pytest.raises(BindError, match="no socket"):
        listen_at(place)
    assert place.lstat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("mode", "fine"), [(0o700, True), (0o755, True), (0o1777, True), (0o777, False), (0o770, False)]
)
def test_a_folder_in_which_others_may_put_files_is_refused(tmp_path, monkeypatch, mode, fine):
    monkeypatch.chdir(tmp_path)
    folder = Path("f")
    folder.mkdir()
    folder.chmod(mode)
    if fine:
        listen_at(folder / "s").socket.close()
    else:
        with pytest.raises(BindError, match="others may put their own files there"):
            listen_at(folder / "s")
        assert list(folder.iterdir()) == []


def test_another_programs_socket_in_its_place_is_left_to_it(place):
    file = listen_at(place)
    place.unlink()
    other = listen_at(place)
    file.remove()
    assert place.exists()
    other.remove()
    assert not place.exists()
    file.socket.close()
    other.socket.close()


def test_a_path_that_is_too_long_is_said(tmp_path):
    with pytest.raises(BindError, match="too long"):
        listen_at(tmp_path / ("x" * 200))
    assert os.listdir(tmp_path) == []
