"""Which paths are held, and what of instar's own is guarded."""

from pathlib import Path

from instar.sandbox.shield import doors, guarded_paths, own_places
from instar.settings.paths import Paths


def test_folders_above_a_guarded_path_are_held_in_place(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    found = guarded_paths((), (tmp_path / "a/b/c", tmp_path / "a/b/missing"), ())
    assert found.anchors[-2:] == (tmp_path / "a", tmp_path / "a/b")
    assert Path("/") not in found.anchors


def test_nothing_inside_a_guarded_path_is_mounted_over_it(tmp_path: Path) -> None:
    (tmp_path / "data/deep/out").mkdir(parents=True)
    found = guarded_paths((tmp_path / "data",), (tmp_path / "data/deep/out",), ())
    assert tmp_path / "data/deep" not in found.anchors


def test_a_path_is_guarded_by_what_it_really_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = guarded_paths((tmp_path / "link/x/../y",), (), ())
    assert found.hidden == (tmp_path / "real/y",)
    assert found.gaps == (
        f"{tmp_path}/link/x/../y: {tmp_path}/link is a link that can be replaced; name the folder itself",
    )


def test_the_places_of_instar_are_guarded_and_sessions_can_still_work(tmp_path: Path) -> None:
    paths = Paths.from_environment({"HOME": str(tmp_path)})
    config = tmp_path / ".config/instar"
    (config / "skills/x").mkdir(parents=True)
    (config / "instar.json").write_text("{}")
    places = own_places(paths)
    assert paths.data in places.hidden
    assert config / "instar.json" in places.hidden
    assert {config, tmp_path / ".config/opencode", paths.tool_output} <= set(places.readonly)
    assert places.writable == (paths.worktrees, paths.plugin_data)


def test_a_mistaken_runtime_folder_hides_nothing(tmp_path: Path) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.mkdir(mode=0o755)
    private.mkdir(mode=0o700)
    home = tmp_path / "home"
    assert shared not in doors({"XDG_RUNTIME_DIR": str(shared)}, home)
    assert private in doors({"XDG_RUNTIME_DIR": str(private)}, home)
    assert private not in doors({"XDG_RUNTIME_DIR": str(private)}, private / "home")
