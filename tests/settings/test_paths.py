"""The places of a person, from the environment alone."""

from pathlib import Path

import pytest

from instar.settings.paths import Paths


def test_without_xdg_variables_everything_stands_in_the_usual_places() -> None:
    paths = Paths.from_environment({"HOME": "/home/ada"})
    home = Path("/home/ada")
    assert paths.config_homes == (
        home / ".config/opencode",
        home / ".config/instar",
        home / ".opencode",
        home / ".instar",
    )
    assert paths.config == home / ".config/instar"
    assert paths.data == home / ".local/share/instar"
    assert paths.state == home / ".local/state/instar"
    assert paths.cache == home / ".cache/instar"


def test_xdg_variables_move_each_place() -> None:
    environment = {f"XDG_{name}_HOME": f"/x/{name.lower()}" for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    paths = Paths.from_environment({"HOME": "/h", **environment})
    assert paths.config_homes[:2] == (Path("/x/config/opencode"), Path("/x/config/instar"))
    assert (paths.data, paths.state, paths.cache) == (
        Path("/x/data/instar"),
        Path("/x/state/instar"),
        Path("/x/cache/instar"),
    )


@pytest.mark.parametrize("value", ["", "relative/place"])
def test_an_xdg_value_that_is_not_absolute_is_ignored(value: str) -> None:
    assert Paths.from_environment({"HOME": "/h", "XDG_DATA_HOME": value}).data == Path(
        "/h/.local/share/instar"
    )


def test_instar_data_names_the_data_folder_itself() -> None:
    paths = Paths.from_environment({"HOME": "/h", "XDG_DATA_HOME": "/x", "INSTAR_DATA": "/d"})
    assert paths.data == Path("/d")
    files = (paths.database, paths.trust_file, paths.password_file, paths.tool_output)
    assert all(path.parent == Path("/d") for path in files)
    assert len(set(files)) == 4


def test_another_configuration_folder_comes_last() -> None:
    paths = Paths.from_environment({"HOME": "/h", "OPENCODE_CONFIG_DIR": "/else"})
    assert paths.config_homes[-1] == Path("/else")


def test_the_log_stands_among_the_state() -> None:
    assert Paths.from_environment({"HOME": "/h"}).log_file == Path("/h/.local/state/instar/log/instar.log")


def test_an_environment_without_home_still_has_one() -> None:
    assert Paths.from_environment({}).home == Path.home()


def test_naming_places_creates_nothing(tmp_path: Path) -> None:
    paths = Paths.from_environment({"HOME": str(tmp_path)})
    assert paths.database.parent.is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []
