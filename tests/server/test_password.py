import os
import stat

import httpx2
import pytest

from instar.server.password import find_password


def test_a_persons_own_password_wins_and_ours_goes_first(tmp_path):
    both = {"INSTAR_SERVER_PASSWORD": "a", "OPENCODE_SERVER_PASSWORD": "b"}
    assert find_password(both, tmp_path / "p").value.reveal() == "a"
    found = find_password({"OPENCODE_SERVER_PASSWORD": "b"}, tmp_path / "p")
    assert (found.value.reveal(), found.origin) == ("b", "$OPENCODE_SERVER_PASSWORD")
    assert not (tmp_path / "p").exists()


def test_a_random_password_is_kept_in_a_file_of_the_person_alone(tmp_path):
    path = tmp_path / "deep" / "password"
    made = find_password({}, path)
    assert made.origin == str(path)
    assert len(made.value.reveal()) >= 24
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_password({}, path).value == made.value


def test_a_file_that_others_can_read_or_that_is_empty_is_replaced(tmp_path):
    path = tmp_path / "password"
    for text, mode in (("known", 0o644), ("", 0o600)):
        path.write_text(text)
        path.chmod(mode)
        found = find_password({}, path)
        assert found.value.reveal() not in ("", "known")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_user_is_not_believed(tmp_path, monkeypatch):
    path = tmp_path / "password"
    path.write_text("known")
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert find_password({}, path).value.reveal() != "known"


@pytest.mark.slow
def test_the_servers_own_password_is_never_printed_but_its_file_is(serve, clean_environment):
    served = serve(environment={"INSTAR_SERVER_PASSWORD": ""})
    assert httpx2.get(f"{served.url}/session").status_code == 401
    served.stop()
    (path,) = [word for word in served.errors.split() if word.endswith("server-password")]
    with open(path) as file:
        password = file.read().strip()
    assert password not in served.errors + served.line


def test_the_data_folder_and_what_is_above_it_are_the_persons_alone_whoever_makes_them(serve, tmp_path):
    data = tmp_path / "above" / "data"
    with_password = {"INSTAR_SERVER_PASSWORD": "given", "INSTAR_DATA": str(data)}
    served = serve(environment=with_password)
    assert httpx2.get(f"{served.url}/session").status_code == 401
    assert [stat.S_IMODE(one.stat().st_mode) for one in (data, data.parent)] == [0o700, 0o700]
