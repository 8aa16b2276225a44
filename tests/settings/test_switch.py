"""`config.yaml`: its one key, its place, its trust, and what is said of the rest."""

from pathlib import Path

import pytest
from tests.settings.test_load import Place

from instar.wire.document import DocumentError

SWITCH = "tools:\n  self_evolution: true\n"
"""The whole file."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def is_on(place: Place) -> bool:
    return place.read().config.data.get("tools", {}).get("self_evolution") is True


@pytest.mark.parametrize("folder", ["instar", "opencode"])
def test_a_persons_file_switches_it_on(place: Place, folder: str) -> None:
    place.home(f"{folder}/config.yaml", SWITCH)
    assert is_on(place)


@pytest.mark.parametrize("name", ["config.yaml", ".instar/config.yaml", "sub/config.yaml"])
def test_a_trusted_projects_file_switches_it_on_and_an_untrusted_ones_does_not(
    place: Place, name: str
) -> None:
    file = place.work(name, SWITCH)
    assert not is_on(place)
    (said,) = place.read().dropped
    assert str(file) in said
    assert "tools.self_evolution" in said
    place.trusted()
    place.trust.add(place.directory)
    assert is_on(place)


def test_instar_json_beside_it_wins(place: Place) -> None:
    place.home("instar/config.yaml", SWITCH)
    place.home("instar/instar.json", {"tools": {"self_evolution": False}})
    assert not is_on(place)


def test_no_other_key_is_read_and_each_is_named_with_its_place(place: Place) -> None:
    file = place.home("instar/config.yaml", "model: a/b\ntools:\n  self_evolution: true\n  bash: false\n")
    read = place.read()
    assert read.config.data == {"tools": {"self_evolution": True}}
    assert [(one.where, one.key) for one in read.unknown] == [
        (f"{file}:1:8", "model"),
        (f"{file}:4:9", "tools.bash"),
    ]


@pytest.mark.parametrize(
    "text", ["title: My site\nplugins: [a]\n", "{{ broken: yaml", "\tx", "", "tools: [a, b]\n"]
)
def test_another_programs_file_of_this_name_is_not_looked_at(place: Place, text: str) -> None:
    place.trusted().work("config.yaml", text)
    read = place.read()
    assert read.layers == []
    assert read.unknown == []


def test_neither_bytes_nor_a_folder_of_this_name_are_in_the_way(place: Place) -> None:
    (place.worktree / "config.yaml").write_bytes(b"\xff\xfe\x00")
    (place.directory / "config.yaml").mkdir()
    assert place.read().layers == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools:\n  self_evolution: yes please\n", ":2:19: tools.self_evolution: expected true or false"),
        ("tools:\n  self_evolution: 1\n", ":2:19: tools.self_evolution: expected true or false"),
        ("tools: self_evolution\n", ":1:8: tools: expected names with true or false"),
        ("tools: {self_evolution: true\n", ":2:1: expected YAML"),
        ("tools:\n  self_evolution: true\n  self_evolution: true\n", ":3:3: "),
    ],
)
def test_a_mistake_is_named_with_its_place(place: Place, text: str, said: str) -> None:
    file = place.home("instar/config.yaml", text)
    with pytest.raises(DocumentError) as error:
        place.read()
    assert f"{file}{said}" in str(error.value)


def test_the_last_key_of_it_stands_alone_without_a_switch(place: Place) -> None:
    place.home("instar/config.yaml", "tools:\n  other: self_evolution\n")
    read = place.read()
    assert "tools" not in read.config.data
    assert [one.key for one in read.unknown] == ["tools.other"]
