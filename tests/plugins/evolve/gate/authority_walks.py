"""A hostile author of candidates, and what each candidate can really reach, worked out from its raw words.

Used by the tests of authority and by the campaign. The reach is a set of single rights over a small world, found
without the code under test but for what `discovery` says of tools, which is what instar asks by.
"""

import functools
import posixpath
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from instar.plugins.evolve import discovery
from instar.plugins.evolve.gate import authority, manifest

GUARDED = ("hooks", "prompts", "tests", "evals", "config", ".git")
NFC, NFD = "é", "e\u0301"
PLACES = [
    "/w",
    "/w/state",
    "/w/state/x",
    "/w/state/x/y",
    "/w/statex",
    "/w/State",
    "/w/notes",
    *(f"/w/{NFC}", f"/w/{NFD}"),
    *(f"/w/{name}" for name in GUARDED),
    *("/w/hooks/a.py", "/w/Hooks", "/w/.GIT", "/", "/etc", "/home"),
]
HELD = {"/w/Hooks", "/w/.GIT", "/", "/etc", "/home", *(f"/w/{name}" for name in GUARDED), "/w/hooks/a.py"}
"""What a shield or a sandbox never lets be written (of the world's places)."""
STEPS = [8, 9, 10, 11, 12, 100, 10**6]
RANGES = {"cpu": 1, "memory": 2**24, "processes": 1, "seconds": 1}
NAMES = ["GH_TOKEN", "gh_token", "GH_TOKENS", "A", "B"]
ACTIONS = ["send", "create_session", "sends"]
TOOLS = ["edit", "Edit", "edit2", "look"]
ARGS = ["path", "name", "Path"]
SPELLINGS = [
    *("state", "./state", "state/", "state//x", "state/x", "state/./x/y", "statex", "State", "notes"),
    *("state/..", "state/../hooks", "..", ".", "", "/state", "/", "state/../..", NFC, NFD, "state\0"),
    *(
        "hooks",
        "./hooks",
        "HOOKS",
        "hooks/a.py",
        "\uff48ooks",
        "hooks.",
        ".git",
        "state/.git",
        "state\\x",
        "~",
    ),
]
Rights = frozenset[tuple[Any, ...]]


def of_grant(grant: authority.Authority) -> Rights:
    """All that a grant allows."""
    rank = authority.HOLDS.index(grant.hold)
    found: set[tuple[Any, ...]] = {("hold", name) for name in authority.HOLDS[: rank + 1]}
    found |= {("env", name) for name in NAMES if name in grant.env}
    found |= {("network",)} if grant.network else set()
    found |= {
        ("action", name) for name in (*ACTIONS, "other") if grant.actions is None or name in grant.actions
    }
    for place in PLACES:
        inside = grant.write is None or any(
            place == f"/w/{folder}" or place.startswith(f"/w/{folder}/") for folder in grant.write
        )
        if inside and (grant.hold == "unbounded" or place not in HELD):
            found.add(("write", place))
    for name, low in RANGES.items():
        limit = getattr(grant.limits, name)
        found |= {(name, step) for step in STEPS if limit is None or limit >= step * low}
    for tool in TOOLS:
        asks = grant.tools.get(f"p_{tool}", frozenset())
        found |= {("unasked", tool, arg) for arg in ARGS if arg not in asks}
    return frozenset(found)


def of_candidate(
    answer: Mapping[str, Any], held: authority.Authority, terms: authority.Terms, used: frozenset[str]
) -> Rights:
    """All that this candidate could do once installed: `held` is only asked for what it inherits."""
    asked = answer.get("sandbox")
    hold = "sandbox" if terms.enforced else "unbounded"
    found: set[tuple[Any, ...]] = {
        ("hold", name) for name in authority.HOLDS[: authority.HOLDS.index(hold) + 1]
    }
    env = terms.env if asked is None else asked.get("env", [])
    found |= {("env", name) for name in NAMES if name in env}
    actions = held.actions or () if asked is None else asked.get("actions", [])
    found |= {("action", name) for name in ACTIONS if name in actions or name in used}
    found |= {("network",)} if hold != "sandbox" or (asked and asked["network"]) else set()
    named = ("traits", "notes", "state") if asked is None else asked.get("write", [])
    folders = [posixpath.normpath(f"/w/{path}") for path in named]
    for place in PLACES:
        if hold != "sandbox" or any(place == one or place.startswith(f"{one}/") for one in folders):
            found.add(("write", place))
    defaults = {"cpu": 60, "memory": 2**31, "processes": 128}
    for name, low in RANGES.items():
        given = {} if asked is None else asked["limits"]
        limit = given.get(name, defaults.get(name)) if hold == "sandbox" else None
        found |= {(name, step) for step in STEPS if limit is None or limit >= step * low}
    for one in registered(answer):
        found |= {("unasked", one.name, arg) for arg in ARGS if arg not in one.patterns}
    return frozenset(found)


def registered(answer: Mapping[str, Any]) -> tuple[discovery.ScriptTool, ...]:
    """The tools that the script ``p.py`` registers with this answer."""
    return _registered(msgspec.json.encode(answer["tools"]))


@functools.lru_cache(4096)
def _registered(tools: bytes) -> tuple[discovery.ScriptTool, ...]:
    return discovery.register("p.py", {"name": "p", "tools": msgspec.json.decode(tools)}).tools


def tool(name: str, args: list[str]) -> dict[str, Any]:
    """A tool's definition as `discover` answers it."""
    permission = {"permission": {"arg": args}} if args else {}
    return {"name": name, "description": "d", "parameters": dict.fromkeys(ARGS, "x"), **permission}


def first(chance: random.Random) -> dict[str, Any]:
    """What a person's own script registers."""
    return {"name": "p", "tools": [tool("edit", chance.sample(ARGS, 2)), tool("look", [])]}


def step(answer: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The answer after one or a few small changes, each of which might be a way up."""
    changed = {**answer}
    for _ in range(chance.choice((1, 1, 2, 4))):
        if chance.random() < 0.4:
            changed["tools"] = _tools(list(changed["tools"]), chance)
        else:
            changed["sandbox"] = _manifest(changed.get("sandbox"), chance)
    return {key: value for key, value in changed.items() if value is not None}


def _manifest(asked: dict[str, Any] | None, chance: random.Random) -> dict[str, Any] | None:
    if asked is None or chance.random() < 0.03:
        limits = {name: chance.choice(STEPS) * low for name, low in RANGES.items()}
        return {
            "env": [],
            "network": chance.random() < 0.3,
            "write": ["state"],
            "limits": limits,
            "actions": [],
        }
    asked = {**asked, "limits": {**asked["limits"]}}
    match chance.randrange(8):
        case 0:
            asked["env"] = [*asked["env"], chance.choice(NAMES)]
        case 1:
            name = chance.choice(list(RANGES))
            asked["limits"][name] = asked["limits"].get(name, 10) + chance.choice((1, -1, RANGES[name]))
        case 2:
            asked["limits"].pop(chance.choice(list(RANGES)), None)
        case 3 | 4:
            asked["write"] = [*asked["write"][-3:], chance.choice(SPELLINGS)]
        case 5:
            asked["network"] = not asked["network"]
        case 6:
            asked["actions"] = [*asked["actions"][-2:], chance.choice(ACTIONS)]
        case _:
            return None
    return asked


def _tools(tools: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    name = chance.choice(TOOLS)
    args = chance.sample(ARGS, chance.randrange(4))
    # Now and then the same name twice.
    others = [one for one in tools if one["name"] != name or chance.random() < 0.05]
    return others if chance.random() < 0.3 else [*others, tool(name, args)]


def walk(seed: int, steps: int = 8) -> tuple[int, int]:
    """Let one hostile sequence of candidates run, and return how many were installed and how many were asked about.

    Raises `AssertionError` when one can reach more than the person's first grant and what they approved.
    """
    chance = random.Random(seed)
    terms = authority.Terms(frozenset(chance.sample(NAMES, 1)), True)
    answer = first(chance)
    live = authority.own(registered(answer), terms)
    grant = live.now(frozenset(chance.sample(ACTIONS, 1)), terms)
    granted = of_grant(grant)
    installed = questions = 0
    for _ in range(steps):
        terms = authority.Terms(terms.env, chance.random() > 0.05)
        wanted = step(answer, chance)
        used = frozenset(chance.sample(ACTIONS, 1)) if chance.random() < 0.1 else frozenset()
        try:
            asked = manifest.parse(wanted["sandbox"], "p.py") if "sandbox" in wanted else None
        except manifest.BadManifest:
            continue
        before = grant.now((), terms)
        candidate = authority.asked(registered(wanted), asked, before, terms).using(used)
        reached = of_candidate(wanted, before, terms, used)
        sentences = authority.raises(before, candidate)
        approved = bool(sentences) and chance.random() < 0.2
        grant = authority.after(before, candidate, approved)
        if sentences and not _unseen(before, candidate):
            more = of_grant(authority.settled(before, candidate)) - of_grant(before)
            assert more, f"seed {seed}: {sentences} though nothing rises"
        questions += bool(sentences)
        if sentences and not approved:
            assert grant == before
            continue
        now = of_grant(grant)
        if approved:
            granted |= now
        assert now <= granted, f"seed {seed}: {sorted(now - granted)}"
        assert reached <= granted, f"seed {seed}: {sorted(reached - granted)}"
        answer, installed = wanted, installed + 1
    return installed, questions


def _unseen(grant: authority.Authority, candidate: authority.Authority) -> bool:
    """Whether a limit or a folder rises by less than the world's places and steps can show."""
    return (grant.limits, grant.write) != (candidate.limits, candidate.write)
