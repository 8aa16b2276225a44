"""What a script can reach, and that no sequence of candidates reaches more than a person granted."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.evolve.gate import authority_walks as walks

from instar.plugins.evolve import discovery
from instar.plugins.evolve.gate import authority, manifest
from instar.plugins.evolve.gate.authority import Authority, Terms

TERMS = Terms(frozenset({"GH_TOKEN"}), True)
HELD = {
    "env": ["A"],
    "network": False,
    "write": ["state"],
    "limits": {"cpu": 10, "memory": 2**28, "processes": 16, "seconds": 5},
    "actions": ["send"],
}


def tools(**asks: list[str]) -> tuple[discovery.ScriptTool, ...]:
    answer = {"name": "p", "tools": [walks.tool(name, args) for name, args in asks.items()]}
    return discovery.register("p.py", answer).tools


def candidate(held: dict | None = None, *, grant: Authority | None = None, terms=TERMS, **asks) -> Authority:
    asked = None if held is None else manifest.parse(held, "p.py")
    return authority.asked(tools(**asks), asked, grant or Authority("sandbox"), terms)


def of_person(*seen: str, **asks: list[str]) -> Authority:
    return authority.own(tools(**asks), TERMS).now(seen, TERMS)


OWN_FOLDERS = {"traits", "notes", "state"}


def test_a_persons_script_leaves_the_agents_first_version_its_own_folders_and_the_actions_it_was_seen_to_use():
    own = authority.own(tools(edit=["path"]), TERMS)
    assert (own.hold, own.actions, own.env) == ("sandbox", None, {"GH_TOKEN"})
    grant = own.now({"send"}, TERMS)
    successor = candidate(grant=grant, edit=["path"])
    assert (successor.hold, successor.actions, successor.network) == ("sandbox", {"send"}, False)
    assert successor.write == OWN_FOLDERS
    assert authority.raises(grant, successor) == []
    assert authority.raises(grant, successor.using({"send"})) == []
    (sentence,) = authority.raises(grant, successor.using({"create_session"}))
    assert sentence == "it would use the actions create_session"


def test_a_grant_of_every_action_leaves_none_until_what_was_seen_is_said():
    own = authority.own((), TERMS)
    assert authority.raises(own, candidate(grant=own)) == []
    assert authority.raises(own, candidate(grant=own).using({"send"})) == ["it would use the actions send"]


def test_what_was_granted_before_the_sandbox_was_the_rule_is_held_to_it_from_the_next_version_on():
    for hold in ("shield", "unbounded"):
        grant = Authority(hold, actions=None, tools={"p_edit": frozenset({"path"})}).now({"send"}, TERMS)
        assert (grant.hold, grant.network, grant.write) == ("sandbox", False, OWN_FOLDERS)
        assert (grant.actions, grant.tools) == ({"send"}, {"p_edit": {"path"}})


def test_a_candidate_with_a_manifest_under_a_persons_script_asks_nobody_unless_it_names_more():
    grant = of_person("send")
    assert authority.raises(grant, candidate({**HELD, "env": ["GH_TOKEN"]})) == []
    assert authority.raises(grant, candidate({**HELD, "network": True, "env": []})) == [
        "it would use the network"
    ]
    (sentence,) = authority.raises(grant, candidate({**HELD, "write": ["log"], "env": []}))
    assert sentence == "it would write log in the workspace (granted: notes, state, traits)"
    (sentence,) = authority.raises(grant, candidate({**HELD, "env": ["GH_TOKEN", "AWS_KEY"]}))
    assert sentence == "it would be given the variables AWS_KEY"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"env": ["A", "B"]}, "it would be given the variables B"),
        ({"env": ["a"]}, "it would be given the variables a"),
        ({"network": True}, "it would use the network"),
        ({"write": ["state", "notes"]}, "it would write notes in the workspace (granted: state)"),
        ({"write": ["State"]}, "it would write State in"),
        ({"write": ["statex"]}, "it would write statex in"),
        ({"write": ["st\u0430te"]}, "it would write 'st\\u0430te' in"),
        ({"limits": {**HELD["limits"], "cpu": 11}}, "its limit for cpu would become 11 s (granted: 10 s)"),
        (
            {"limits": {**HELD["limits"], "memory": 2**28 + 1}},
            "its limit for memory would become 268435457 bytes",
        ),
        (
            {"limits": {**HELD["limits"], "processes": 17}},
            "its limit for processes would become 17 (granted: 16)",
        ),
        (
            {"limits": {"cpu": 10, "memory": 2**28, "processes": 16}},
            "its limit for seconds would become no limit",
        ),
        ({"actions": ["send", "create_session"]}, "it would use the actions create_session"),
    ],
)
def test_each_thing_in_which_a_manifest_reaches_more_is_one_sentence(change: dict, says: str):
    grant = candidate(HELD)
    (sentence,) = authority.raises(grant, candidate({**HELD, **change}))
    assert sentence.startswith(says)


@pytest.mark.parametrize(
    "change",
    [
        {"env": []},
        {"write": ["state/x", "./state/y"]},
        {"write": []},
        {"limits": {"cpu": 9, "memory": 2**27, "processes": 1, "seconds": 1}},
        {"actions": []},
        {"env": ["A", "A"]},
    ],
)
def test_what_lowers_asks_nobody_and_the_way_back_up_does(change: dict):
    grant, lower = candidate(HELD), candidate({**HELD, **change})
    assert authority.raises(grant, lower) == []
    below = authority.after(grant, lower, approved=False)
    assert bool(authority.raises(below, grant)) is (lower != grant)


def test_a_dropped_manifest_asks_for_what_holds_without_one():
    dropped = candidate(grant=candidate(HELD))
    assert authority.raises(candidate(HELD), dropped) == [
        "it would write notes, traits in the workspace (granted: state)",
        "its limit for cpu would become 60 s (granted: 10 s)",
        "its limit for memory would become 2147483648 bytes (granted: 268435456 bytes)",
        "its limit for processes would become 128 (granted: 16)",
        "its limit for seconds would become no limit (granted: 5 s)",
        "it would be given the variables GH_TOKEN",
    ]


def test_without_an_enforced_sandbox_a_candidate_is_unbounded_whatever_its_manifest_says():
    nothing = Terms(TERMS.env, False)
    bound, free = candidate(HELD), candidate(HELD, terms=nothing)
    assert (free.hold, free.network, free.write, free.limits) == ("unbounded", True, None, manifest.OPEN)
    (sentence,) = authority.raises(bound, free)
    assert "runs unbounded, as you: nothing holds it" in sentence


def test_a_script_that_the_agent_created_has_its_own_folders_and_no_action():
    grant = authority.created(TERMS)
    assert authority.raises(grant, candidate(grant=grant, look=[])) == []
    assert authority.raises(grant, candidate(grant=grant).using({"send"})) == [
        "it would use the actions send"
    ]
    assert authority.raises(grant, candidate(grant=grant, terms=Terms(TERMS.env, False)))


def test_variables_that_the_person_names_later_may_be_given_to_every_script():
    more = Terms(frozenset({"GH_TOKEN", "B"}), True)
    plain = candidate(grant=of_person())
    assert authority.raises(plain.now((), more), candidate(grant=plain, terms=more)) == []
    assert candidate(HELD).now((), more).env == {"A", "B", "GH_TOKEN"}


_SILENT = "would run without asking a person first (so far it asks about {})"


@pytest.mark.parametrize(
    ("before", "then", "says"),
    [
        ({"edit": ["path", "name"]}, {"edit": ["path"]}, "would no longer ask a person about name"),
        ({"edit": ["path", "name"]}, {"edit": []}, _SILENT.format("name, path")),
        ({"edit": ["path"]}, {"edit": ["name"]}, "would no longer ask a person about path"),
        ({"edit": ["path"]}, {"edit": ["name", "path"]}, None),
        ({"edit": ["path", "name"]}, {"edit": ["name", "path"]}, None),
        ({"edit": ["path"]}, {}, None),
        ({"edit": ["path"]}, {"edit": ["path"], "new": []}, None),
        ({"edit": []}, {"edit": []}, None),
    ],
)
def test_a_tool_that_asks_about_less_raises_and_a_new_or_removed_one_does_not(before, then, says):
    grant = of_person(**before)
    assert authority.raises(grant, candidate(grant=grant, **then)) == (
        [f"its tool p_edit {says}"] if says else []
    )


def test_a_tool_that_was_removed_comes_back_only_with_what_it_asked_about():
    grant = of_person(edit=["path"])
    grant = authority.after(grant, candidate(grant=grant), approved=False)
    grant = authority.after(grant, candidate(grant=grant, Edit=[], edit2=[]), approved=False)
    again = candidate(grant=grant, edit=[])
    assert authority.raises(grant, again) == [f"its tool p_edit {_SILENT.format('path')}"]
    assert authority.raises(grant, candidate(grant=grant, edit=["path"])) == []
    assert authority.after(grant, again, approved=False) == grant
    allowed = authority.after(grant, again, approved=True)
    assert authority.raises(allowed, candidate(grant=allowed, edit=[])) == []


def test_a_grant_remembers_no_tool_that_never_asked():
    grant = of_person(edit=["path"], look=[])
    for name in ("a", "b", "c"):
        grant = authority.after(grant, candidate(grant=grant, **{name: []}), approved=False)
    assert grant.tools == {"p_edit": {"path"}}


def test_a_tool_that_moves_to_another_script_takes_its_questions_along():
    first = of_person(edit=["path"])
    gone = authority.after(first, candidate(grant=first), approved=False)
    other = of_person()
    assert authority.raises(other, candidate(grant=other, edit=["path"]), [gone]) == []
    moved = candidate(grant=other, edit=[])
    assert authority.raises(other, moved, [gone]) == [f"its tool p_edit {_SILENT.format('path')}"]
    assert authority.after(other, moved, False, [gone]) == other


def test_going_back_to_a_version_keeps_what_is_remembered_of_later_tools():
    grant = of_person(edit=["path"])
    later = authority.after(grant, candidate(grant=grant, look=["name"]), approved=False)
    back = authority.after(later, grant, approved=True)
    assert back.tools == {"p_edit": {"path"}, "p_look": {"name"}}
    assert back.hold == "sandbox"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"actions": [{"type": "send"}, {"type": "create_session"}]}, {"send", "create_session"}),
        ({"actions": [{"type": "Send\u202e"}, {"type": 3}, {}, "send"]}, set()),
        ({"actions": "send"}, set()),
        ({}, set()),
    ],
)
def test_the_actions_of_an_answer_are_told_by_their_type(answer: dict, found: set[str]):
    assert authority.used(answer) == found


def test_an_authority_survives_being_stored():
    grant = authority.after(of_person(edit=["path"]), candidate(HELD, edit=["path"]), approved=True)
    assert msgspec.json.decode(msgspec.json.encode(grant), type=Authority) == grant


FOLDERS = st.sets(st.sampled_from(["state", "state/x", "state/x/y", "statex", "State", "notes"])).map(
    manifest.outermost
)
LIMIT = st.none() | st.sampled_from(walks.STEPS)
GRANTS = st.builds(
    Authority,
    st.sampled_from(authority.HOLDS),
    st.frozensets(st.sampled_from(walks.NAMES)),
    st.booleans(),
    st.none() | FOLDERS,
    st.builds(manifest.ManifestLimits, LIMIT, LIMIT.map(lambda step: step and step * 2**24), LIMIT, LIMIT),
    st.none() | st.frozensets(st.sampled_from(walks.ACTIONS)),
    st.dictionaries(
        st.sampled_from([f"p_{name}" for name in walks.TOOLS]),
        st.frozensets(st.sampled_from(walks.ARGS), min_size=1),
    ),
)


@pytest.mark.slow
@given(GRANTS, GRANTS)
def test_one_authority_is_at_most_another_only_if_it_reaches_nothing_more(one: Authority, other: Authority):
    if one <= other:
        assert walks.of_grant(one) <= walks.of_grant(other)
        assert other.actions is None or one.actions is not None


@pytest.mark.slow
@given(GRANTS, GRANTS, GRANTS)
@settings(max_examples=100)
def test_authority_is_a_partial_order(one: Authority, two: Authority, three: Authority):
    assert one <= one
    low = msgspec.structs.replace(
        two, env=two.env & three.env, hold="sandbox", network=False, write=frozenset()
    )
    for a, b, c in ((one, two, three), (low, two, three), (low, two, two), (one, low, two)):
        if a <= b and b <= c:
            assert a <= c
        if a <= b and b <= a:
            assert a == b
    assert low <= two


@pytest.mark.slow
@given(GRANTS, GRANTS, st.booleans())
def test_a_candidate_is_installed_without_a_question_exactly_when_it_is_at_most_the_grant(
    grant: Authority, wanted: Authority, approved: bool
):
    grant = grant.now(walks.ACTIONS[:1], TERMS)
    sentences = authority.raises(grant, wanted)
    assert (not sentences) is (authority.settled(grant, wanted) <= grant)
    found = authority.after(grant, wanted, approved)
    assert found == (grant if sentences and not approved else authority.settled(grant, wanted))
    assert authority.raises(found, wanted) == [] or found == grant or wanted.actions is None
    assert authority.raises(grant, grant) == []


@pytest.mark.slow
@given(st.integers(0, 2**40))
@settings(max_examples=25, deadline=None)
def test_no_sequence_of_candidates_reaches_more_than_the_person_granted(seed: int):
    counts = [walks.walk(seed * 100 + number, steps=6) for number in range(100)]
    assert sum(installed for installed, _ in counts) > 50
    assert sum(questions for _, questions in counts) > 50


@pytest.mark.slow
@given(st.integers(0, 2**40))
@settings(max_examples=10, deadline=None)
def test_no_long_sequence_of_candidates_reaches_more_than_the_person_granted(seed: int):
    installed, questions = walks.walk(seed, steps=400)
    assert installed > 20
    assert questions > 20
