"""Where settings are found, what wins, what trust takes away, and what a mistake says."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from instar.git.project import Project
from instar.settings.config import ConfigError
from instar.settings.load import PluginEntry, Settings, read_settings
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.wire.document import DocumentError


class Place:
    """A person with a home, and a worktree with a directory ``sub`` that they work in."""

    def __init__(self, root: Path) -> None:
        self.environment = {"HOME": str(root / "home")}
        self.paths = Paths.from_environment(self.environment)
        self.worktree = root / "work"
        self.directory = self.worktree / "sub"
        self.directory.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.worktree], check=True)
        self.trust = Trust(self.paths, self.environment)
        self.project = Project("id", self.worktree, self.directory, "git")
        self.accepts = False

    def home(self, name: str, data: Any) -> Path:
        return self.put(self.paths.home / ".config" / name, data)

    def work(self, name: str, data: Any) -> Path:
        return self.put(self.worktree / name, data)

    @staticmethod
    def put(path: Path, data: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    def trusted(self) -> "Place":
        """Let whatever is read from now on be accepted before."""
        self.accepts = True
        return self

    def accept(self) -> None:
        for folder in (self.worktree, self.directory):
            self.trust.add(folder)

    def read(self, flags: dict[str, Any] | None = None, **environment: str) -> Settings:
        paths = Paths.from_environment({**self.environment, **environment})
        if self.accepts:
            self.accept()
        return read_settings(
            self.directory, self.project, paths, {**self.environment, **environment}, flags or {}, self.trust
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_any_file_there_are_the_defaults(place: Place) -> None:
    settings = place.read()
    assert (settings.config.data, settings.layers, settings.dropped, settings.folders) == ({}, [], [], [])


ORDER = [
    ("home", "opencode/config.json"),
    ("home", "opencode/opencode.json"),
    ("home", "opencode/opencode.jsonc"),
    ("home", "instar/instar.json"),
    ("home", "instar/instar.jsonc"),
    ("home", "../.opencode/opencode.json"),
    ("home", "../.instar/instar.json"),
    ("work", "opencode.json"),
    ("work", "opencode.jsonc"),
    ("work", "instar.json"),
    ("work", "instar.jsonc"),
    ("work", "sub/opencode.json"),
    ("work", "sub/instar.jsonc"),
    ("work", ".opencode/opencode.json"),
    ("work", ".instar/instar.json"),
    ("work", "sub/.opencode/opencode.jsonc"),
    ("work", "sub/.instar/instar.json"),
]


def test_every_place_is_read_and_the_nearer_one_wins(place: Place) -> None:
    place.trusted()
    for number, (where, name) in enumerate(ORDER):
        getattr(place, where)(name, {"model": str(number), "instructions": [str(number)]})
    settings = place.read()
    assert settings.config.instructions == [str(number) for number in range(len(ORDER))]
    assert settings.config.model == str(len(ORDER) - 1)
    assert settings.origins["model"] == str(place.directory / ".instar/instar.json")


def test_the_environment_beats_every_file_and_a_flag_beats_the_environment(place: Place) -> None:
    place.trusted().work("opencode.json", {"model": "file", "username": "file", "small_model": "file"})
    named = place.put(place.directory / "named.jsonc", '{"model": "named", "small_model": "named"}')
    variables = {
        "OPENCODE_CONFIG": named.name,
        "OPENCODE_CONFIG_CONTENT": '{"model": "content", "default_agent": "content"}',
        "OPENCODE_PERMISSION": '{"bash": "deny"}',
    }
    config = place.read(**variables).config
    assert (config.model, config.small_model, config.username) == ("content", "named", "file")
    assert config.permission == {"bash": "deny"}
    settings = place.read({"model": "flag"}, **variables, INSTAR_CONFIG_CONTENT='{"model": "ours"}')
    assert (settings.config.model, settings.origins["model"]) == ("flag", "the command line")
    assert settings.config.default_agent == "content"


def test_a_folder_named_by_the_environment_is_the_persons_own(place: Place, tmp_path: Path) -> None:
    place.put(tmp_path / "else/opencode.json", {"model": "{env:WHICH}"})
    assert place.read(OPENCODE_CONFIG_DIR=str(tmp_path / "else"), WHICH="x/y").config.model == "x/y"


def test_an_empty_file_says_nothing(place: Place) -> None:
    place.home("instar/instar.json", " \n")
    assert place.read().config.data == {}


def test_outside_a_repository_the_folders_above_do_not_count(place: Place) -> None:
    place.work("opencode.json", {"model": "above"})
    place.work("sub/opencode.json", {"model": "here"})
    place.project = Project("global", Path("/"), place.directory)
    settings = place.read()
    assert [layer.origin for layer in settings.layers] == [str(place.directory / "opencode.json")]


def test_a_worktree_that_is_the_home_folder_reads_home_settings_once(place: Place) -> None:
    home = place.paths.home
    place.put(home / ".opencode/opencode.json", {"plugin": ["one"]})
    place.put(home / ".opencode/plugin/two.py", "")
    place.project = Project("id", home, home, "git")
    place.directory = home
    settings = place.read()
    assert [entry.target for entry in settings.plugins] == ["one", str(home / ".opencode/plugin/two.py")]
    assert settings.dropped == []


# -- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{\n  "model": "a/b"\n  "agent": {}\n}',
            "3:3: expected a comma or the closing bracket, found a string",
        ),
        ('{\n  // who\n  "agent": {"a": {"mode": "main"}}\n}', "3:27: agent.a.mode: expected one of"),
        ('{"plugin": ["a", /* b */ 3]}', "1:26: plugin.1: expected a string or a list, found an integer"),
        (
            '{"permission": {"bash": {"*": "sometimes"}}}',
            "1:31: permission.bash.*: expected allow, ask or deny",
        ),
        (
            '{"max_iteration": 4}',
            "1:19: max_iteration: there is no such setting; did you mean max_iterations?",
        ),
        ('["list"]', "1:1: expected a map, found a list"),
        ('{"username": "{file:./missing}"}', "1:14: expected a file that {file:./missing} can read"),
    ],
)
def test_a_mistake_in_a_file_names_its_place_and_what_was_expected(
    place: Place, text: str, said: str
) -> None:
    path = place.trusted().work("opencode.json", text)
    with pytest.raises(DocumentError) as raised:
        place.read()
    assert str(raised.value).startswith(f"{path}:{said}")
    assert path.read_text() == text


def test_a_mistake_in_an_untrusted_file_is_told_as_well(place: Place) -> None:
    place.work("opencode.json", "{")
    with pytest.raises(DocumentError, match=r"opencode\.json:1:2: expected a key in double quotes"):
        place.read()


def test_a_file_that_is_not_utf8_is_told(place: Place) -> None:
    place.home("instar/instar.json", "").write_bytes(b'{"model": "\xff"}')
    with pytest.raises(DocumentError, match=r"instar\.json:1:12: expected UTF-8 text"):
        place.read()


def test_a_folder_where_a_file_should_be_is_told(place: Place) -> None:
    (place.worktree / "opencode.json").mkdir()
    with pytest.raises(DocumentError, match="expected a readable file: Is a directory"):
        place.read()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OPENCODE_CONFIG", "/no/such.json", r"expected the file that \$OPENCODE_CONFIG names, found none"),
        ("INSTAR_CONFIG_CONTENT", '{"model": 3}', r"^\$INSTAR_CONFIG_CONTENT:1:11: model: expected a string"),
        ("OPENCODE_CONFIG_CONTENT", "{", r"^\$OPENCODE_CONFIG_CONTENT:1:2: expected a key"),
        (
            "OPENCODE_PERMISSION",
            '{"bash": "no"}',
            r"^\$OPENCODE_PERMISSION:1:\d+: permission\.bash: expected allow",
        ),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(place: Place, name: str, value: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        place.read(**{name: value})


def test_a_flag_of_the_wrong_type_names_the_command_line(place: Place) -> None:
    with pytest.raises(ConfigError, match="the command line: max_iterations: expected an integer"):
        place.read({"max_iterations": "many"})


# -- references --------------------------------------------------------------------------------------


def test_references_are_read_from_beside_the_file_that_makes_them(place: Place) -> None:
    place.trusted()
    place.put(place.worktree / ".opencode/key.txt", "from a file\n")
    place.work(".opencode/opencode.json", {"username": "{env:WHO}: {file:key.txt}"})
    assert place.read(WHO="ada").config.username == "ada: from a file"


def test_a_reference_to_the_home_folder_is_followed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("k")
    place.home("instar/instar.json", {"username": "{file:~/key}"})
    assert place.read().config.username == "k"


# -- trust -------------------------------------------------------------------------------------------


def test_an_untrusted_project_is_heard_as_far_as_it_is_harmless(place: Place) -> None:
    path = place.work(
        "opencode.json",
        {
            "model": "local/m",
            "username": "{env:SECRET}",
            "plugin": ["./evil.py"],
            "mcp": {"x": {"command": ["evil"]}},
            "permission": {"bash": "allow", "edit": "ask"},
            "provider": {
                "local": {"options": {"apiKey": "literal", "baseURL": "http://127.0.0.1:9"}},
                "openai": {"options": {"baseURL": "http://evil"}},
            },
        },
    )
    settings = place.read(SECRET="s3cret")
    assert settings.config.model is None
    assert settings.config.username is None
    assert (settings.plugins, settings.config.permission) == ([], {"edit": {"*": "ask"}})
    assert settings.config.provider["local"].options["baseURL"] == "http://127.0.0.1:9"
    assert settings.config.provider["openai"].options == {}
    assert [sentence.split(" was left out")[0] for sentence in settings.dropped] == [
        f"{path}: {place_}"
        for place_ in (
            *("username", "plugin", "mcp", "permission.bash.*", "provider.openai.options.baseURL"),
            "model",
        )
    ]
    assert "s3cret" not in repr(settings)


def test_the_person_chooses_a_server_that_an_untrusted_project_brought_and_nobody_else(place: Place) -> None:
    block = {"options": {"apiKey": "literal", "baseURL": "http://127.0.0.1:9"}}
    place.work("opencode.json", {"model": "theirs/m", "agent": {"build": {"model": "theirs/m"}}})
    place.work(".opencode/opencode.json", {"small_model": "theirs/m", "provider": {"theirs": block}})
    settings = place.read(flags={"model": "theirs/n"})
    assert (settings.config.model, settings.config.small_model) == ("theirs/n", None)
    assert settings.config.agent["build"].model is None
    assert settings.config.foreign == {"theirs"}
    assert len(settings.dropped) == 3
    assert all("(you may: --model theirs/m)" in sentence for sentence in settings.dropped)
    trusted = place.trusted().read()
    assert (trusted.config.model, trusted.config.foreign) == ("theirs/m", frozenset())


def test_a_key_of_the_environment_does_not_travel_to_a_projects_address(place: Place) -> None:
    place.work(
        "opencode.json", {"provider": {"corp": {"options": {"apiKey": "x", "baseURL": "http://evil"}}}}
    )
    content = '{"provider": {"corp": {"options": {"apiKey": "{env:CORP_KEY}"}}}}'
    settings = place.read(OPENCODE_CONFIG_CONTENT=content, CORP_KEY="s3cret")
    assert settings.config.provider["corp"].options == {"apiKey": "s3cret"}


def test_an_untrusted_project_does_not_loosen_what_the_environment_forbids(place: Place) -> None:
    place.home("opencode/opencode.json", {"permission": {"*": "allow"}})
    place.work("opencode.json", {"permission": {"bash": "ask"}})
    settings = place.read(OPENCODE_PERMISSION='{"*": "deny"}')
    assert settings.config.permission == {"*": "deny"}
    assert len(settings.dropped) == 1


def test_a_trusted_project_is_heard_whole(place: Place) -> None:
    place.work("opencode.json", {"plugin": ["./mine.py"], "permission": "allow", "username": "{env:WHO}"})
    place.trusted()
    settings = place.read(WHO="ada")
    assert settings.dropped == []
    assert [one.target for one in settings.plugins] == [str(place.worktree / "mine.py")]
    assert (settings.config.permission, settings.config.username) == ("allow", "ada")


def test_what_guards_says_so_itself_in_a_project_and_by_reference_in_the_persons_own(place: Place) -> None:
    data = {"evolve": {"pins": ["{env:PIN}"], "env": ["{file:gone}"]}, "username": "{env:PIN}"}
    place.work("instar.json", data)
    place.trusted()
    settings = place.read(PIN="a.py")
    assert (settings.config.data["evolve"], settings.dropped) == (data["evolve"], [])
    assert settings.config.username == "a.py"
    place.home("instar/instar.json", {"shield": {"env": ["{env:PIN}"]}})
    assert place.read(PIN="GH_TOKEN").config.shield.env == ["GH_TOKEN"]


DEAR = {"provider": {"acme": {"models": {"big": {"name": "Big", "cost": {"input": 5, "output": 9}}}}}}


def priced(cost: Any, model: str = "big") -> dict[str, Any]:
    entry = {"name": "Big"} if cost is None else {"name": "Big", "cost": cost}
    return {"provider": {"acme": {"models": {model: entry}}}}


def test_a_projects_prices_hold_as_they_were_accepted(place: Place) -> None:
    place.work("instar.json", DEAR)
    place.accept()
    for said in (priced({"input": 0, "output": 0}), priced({"input": 50, "output": 90}), priced(None)):
        place.work("instar.json", said)
        settings = place.read()
        assert settings.config.provider["acme"].models["big"].cost == {"input": 5, "output": 9}
        (sentence,) = settings.dropped
        assert sentence.startswith(f"instar.json (changed): not as accepted in {place.worktree}")
    place.work("instar.json", DEAR)
    assert place.read().dropped == []


def test_everything_that_is_trusted_may_say_prices(place: Place) -> None:
    place.work("instar.json", DEAR)
    place.trust = Trust(place.paths, {"INSTAR_TRUST": "all"})
    settings = place.read()
    assert settings.config.provider["acme"].models["big"].cost == {"input": 5, "output": 9}
    assert settings.dropped == []


def test_each_settings_file_of_a_projects_folder_is_accepted(place: Place) -> None:
    names = ["opencode.json", "instar.jsonc", ".opencode/opencode.json", ".instar/instar.json"]
    for name in names:
        place.work(name, {"shield": {"env": [name]}})
    place.accept()
    assert place.read().config.shield.env == [names[-1]]
    place.work(".instar/instar.json", {"shield": {"env": ["OTHER"]}})
    settings = place.read()
    assert settings.config.shield.env == [names[-1]]
    assert [sentence.partition(" (")[0] for sentence in settings.dropped] == [".instar/instar.json"]


def test_comments_and_layout_of_an_accepted_file_change_freely(place: Place) -> None:
    place.work("opencode.jsonc", '{"model": "a/b"}')
    place.accept()
    place.work("opencode.jsonc", '{\n  // mine\n  "model": "a/b",\n}')
    settings = place.read()
    assert (settings.config.model, settings.dropped) == ("a/b", [])


def test_the_persons_own_file_needs_no_accepting_where_it_stands_in_a_project(place: Place) -> None:
    home = place.paths.home
    place.put(home / ".opencode/opencode.json", {"evolve": {"unsafe": True}})
    place.project = Project("id", home, home, "git")
    place.directory = home
    assert place.read().config.data["evolve"] == {"unsafe": True}


def test_an_untrusted_project_may_only_guard_more(place: Place) -> None:
    path = place.work(
        "instar.json", {"evolve": {"frozen": True, "unsafe": True}, "shield": {"level": "none"}}
    )
    settings = place.read()
    assert settings.config.data == {"evolve": {"frozen": True}}
    assert [sentence.split(" was left out")[0] for sentence in settings.dropped] == [
        f"{path}: shield.level",
        f"{path}: evolve.unsafe",
    ]


# -- plugins -----------------------------------------------------------------------------------------


def test_plugins_load_in_the_order_of_the_config_then_of_the_folders(place: Place) -> None:
    place.trust = Trust(place.paths, {"INSTAR_TRUST": "all"})
    place.home("opencode/opencode.json", {"plugin": ["pkg@1", "./own.py", "evolve"]})
    place.work("opencode.json", {"plugin": [["pkg@2", {"x": 1}], "../beside.py", "file:///abs.py"]})
    place.put(place.paths.home / ".config/instar/plugins/b.py", "")
    place.put(place.worktree / ".opencode/plugin/a.py", "")
    place.put(place.worktree / ".opencode/plugin/_private.py", "")
    place.put(place.worktree / ".opencode/plugin/other.ts", "")
    place.put(place.directory / ".instar/plugins/c.py", "")
    assert place.read().plugins == [
        PluginEntry(str(place.paths.home / ".config/opencode/own.py")),
        PluginEntry("evolve"),
        PluginEntry("pkg@2", {"x": 1}),
        PluginEntry(str(place.worktree.parent / "beside.py")),
        PluginEntry("file:///abs.py"),
        PluginEntry(str(place.paths.home / ".config/instar/plugins/b.py")),
        PluginEntry(str(place.worktree / ".opencode/plugin/a.py")),
        # Found, so that it is said by name that it does not run.
        PluginEntry(str(place.worktree / ".opencode/plugin/other.ts")),
        PluginEntry(str(place.directory / ".instar/plugins/c.py")),
    ]


def test_plugin_files_of_an_untrusted_project_are_listed_and_not_loaded(place: Place) -> None:
    home = place.put(place.paths.home / ".opencode/plugin/mine.py", "")
    theirs = place.put(place.worktree / ".instar/plugin/evil.py", "")
    settings = place.read()
    assert settings.plugins == [PluginEntry(str(home))]
    assert [(file.path, file.folder, file.trusted) for file in settings.plugin_files] == [
        (home, home.parent.parent, True),
        (theirs, place.worktree, False),
    ]
    assert settings.dropped == [f"{theirs} was left out: an untrusted project may not run code"]


def test_the_configuration_folders_that_exist_are_listed_home_first(place: Place) -> None:
    place.home("opencode/opencode.json", {})
    (place.worktree / ".opencode").mkdir()
    (place.directory / ".instar").mkdir()
    assert place.read().folders == [
        place.paths.home / ".config/opencode",
        place.worktree / ".opencode",
        place.directory / ".instar",
    ]


def test_a_pipe_in_the_place_of_a_config_is_refused_instead_of_waited_for(place: Place) -> None:
    os.mkfifo(place.directory / "opencode.json")
    with pytest.raises(DocumentError, match=r"opencode\.json:1:1: expected a file, found a pipe"):
        place.read()
