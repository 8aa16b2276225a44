"""Reading what a script asks to be held to."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugin import sandbox
from instar.plugins.evolve.gate import manifest

FULL = {
    "env": ["GH_TOKEN"],
    "network": True,
    "write": ["state", "notes"],
    "limits": {"cpu": 10, "memory": 268435456, "processes": 16, "seconds": 5},
    "actions": ["send"],
}


def test_a_manifest_says_variables_network_folders_limits_and_actions():
    found = manifest.parse(FULL, "p.py")
    assert (found.env, found.network, found.actions) == ({"GH_TOKEN"}, True, {"send"})
    assert found.write == {"state", "notes"}
    assert found.limits == manifest.ManifestLimits(10, 268435456, 16, 5)
    limits = found.sandboxed()
    assert (limits.cpu, limits.memory, limits.processes) == (10, 268435456, 16)
    assert limits.file == sandbox.Limits().file


def test_what_a_manifest_leaves_out_is_not_granted_and_has_the_sandboxes_limits():
    found = manifest.parse({}, "p.py")
    assert (found.env, found.network, found.write, found.actions) == (set(), False, set(), set())
    assert found.sandboxed() == sandbox.Limits()
    assert found.limits.cpu == sandbox.Limits().cpu
    assert manifest.parse({"limits": {"cpu": 1}}, "p.py").limits.memory == sandbox.Limits().memory


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ([], 'p.py: sandbox: expected an object such as {"env"'),
        (True, "p.py: sandbox: expected an object"),
        ({"networks": True}, "p.py: sandbox.networks: unknown key; did you mean 'network'?"),
        ({"paths": []}, "sandbox.paths: unknown key; expected one of env, network, write, limits, actions"),
        ({"network": "no"}, "sandbox.network: expected true or false, found 'no'"),
        ({"network": None}, "sandbox.network: expected true or false, found None"),
        ({"env": "GH_TOKEN"}, "sandbox.env: expected a list of texts"),
        ({"env": ["A=B"]}, "sandbox.env: expected the name of a variable, found 'A=B'"),
        ({"env": ["A\n"]}, "sandbox.env: expected the name of a variable"),
        ({"env": ["A"] * 65}, "sandbox.env: expected at most 64 texts, found 65"),
        ({"actions": ["Send"]}, "sandbox.actions: expected the name of an action"),
        ({"actions": [3]}, "sandbox.actions: expected a list of texts, found [3]"),
        ({"limits": 5}, "sandbox.limits: expected an object with cpu, memory, processes, seconds"),
        ({"limits": {"cpus": 5}}, "sandbox.limits: cpus: unknown key; did you mean 'cpu'?"),
        ({"limits": {"cpu": 0}}, "sandbox.limits: cpu: expected a whole number from 1 to 86400, found 0"),
        ({"limits": {"cpu": True}}, "cpu: expected a whole number"),
        ({"limits": {"cpu": 1.5}}, "cpu: expected a whole number"),
        ({"limits": {"cpu": None}}, "cpu: expected a whole number"),
        ({"limits": {"memory": 1 << 70}}, "memory: expected a whole number from 16777216 to 1099511627776"),
        ({"write": ["a", "../b"]}, "sandbox.write: '../b' expected a path without .."),
    ],
)
def test_a_malformed_manifest_is_refused_with_its_place(asked: object, says: str):
    with pytest.raises(manifest.BadManifest) as refused:
        manifest.parse(asked, "p.py")
    assert says in str(refused.value)


def test_every_mistake_of_a_manifest_is_said_at_once():
    with pytest.raises(manifest.BadManifest) as refused:
        manifest.parse({"env": 1, "network": 1, "limits": {"cpu": 0, "seconds": 0}}, "p.py")
    assert len(str(refused.value).splitlines()) == 3
    assert "cpu:" in str(refused.value)
    assert "seconds:" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("state", "state"),
        ("./state", "state"),
        ("state/", "state"),
        ("state//x/./y", "state/x/y"),
        ("state/hooks", "state/hooks"),
        ("statehooks", "statehooks"),
        ("State", "State"),
        ("état", "état"),
        ("...", None),
        ("a b", "a b"),
    ],
)
def test_a_folder_has_one_form(path: str, meant: str | None):
    if meant is None:
        with pytest.raises(ValueError, match="guarded"):
            manifest.folder(path)
    else:
        assert manifest.folder(path) == meant


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "./", "//", "/state", "~/state", "~", "..", "state/..", "state/../x", "a/../../b"),
        *("hooks", "./hooks", "hooks/a.py", "HOOKS", "Prompts", "tests", "evals", "config/x", ".git", ".GIT"),
        *("\uff48ooks", "hooks.", "hooks ", "state/.git", "state/.Git/hooks", ".opencode", ".instar"),
        *("a\0b", "a\\b", "a\nb", "a\u202eb", "a\u200bb", "\ud800", "x" * 513),
    ],
)
def test_a_folder_that_is_not_plainly_inside_and_free_is_refused(path: str):
    with pytest.raises(ValueError, match=r"expected|guarded|workspace|plain"):
        manifest.folder(path)
    with pytest.raises(manifest.BadManifest, match=r"p\.py: sandbox\.write: "):
        manifest.parse({"write": [path]}, "p.py")


PIECES = st.sampled_from(["state", "..", ".", "", "hooks", "HOOKS", ".git", "a", "ﬁ", "\u017f", "~"])


@given(st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=5).map("/".join)))
def test_a_folder_that_is_taken_lies_inside_and_outside_of_what_is_guarded(path: str):
    try:
        found = manifest.folder(path)
    except ValueError:
        return
    assert posixpath.normpath(f"/w/{path}") == f"/w/{found}"
    assert found.split("/")[0].casefold() not in (
        "hooks",
        "prompts",
        "tests",
        "evals",
        "config",
        ".git",
        "..",
    )
    assert manifest.folder(found) == found


def test_folders_that_lie_in_others_are_not_said_twice():
    found = manifest.parse({"write": ["state/x", "./state", "state", "statex", "a/b"]}, "p.py")
    assert found.write == {"state", "statex", "a/b"}


@pytest.mark.parametrize(
    ("outer", "inner", "answer"),
    [
        ("state", "state", True),
        ("state", "state/x", True),
        ("state/x", "state", False),
        ("state", "statex", False),
        ("state", "State/x", False),
        ("é", "e\u0301/x", False),
    ],
)
def test_a_folder_covers_itself_and_what_lies_in_it(outer: str, inner: str, answer: bool):
    assert manifest.covers(outer, inner) is answer
