"""Authority: what a script can reach as instar starts it, and whether a candidate would reach more.

Pure functions over one value. Only what instar holds counts, never what a script says of itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from instar.plugins.evolve.discovery import ScriptTool
from instar.plugins.evolve.gate.manifest import ACTION, OPEN, Manifest, ManifestLimits, covers, unasked

Hold = Literal["sandbox", "shield", "unbounded"]
HOLDS: Final = ("sandbox", "shield", "unbounded")
"""How a script is held, from the least to the most that it can reach.

`sandbox`: to its manifest, or to what holds without one (`unasked`): every version of the agent's. `shield`: it writes
all but the guarded places, uses the network and reads the person's files: a person's own version. `unbounded`: as the
person, since they want that for their own or since this machine enforces no sandbox.
"""
_REACHES: Final = {
    "sandbox": "is held to a sandbox",
    "shield": "is held by the shield alone: it writes everywhere but in the guarded places, uses the network and "
    "reads your files, without limits",
    "unbounded": "runs unbounded, as you: nothing holds it",
}
_UNITS: Final = {"cpu": " s", "memory": " bytes", "processes": "", "seconds": " s"}
_NONE: Final[frozenset[str]] = frozenset()


class Terms(msgspec.Struct, frozen=True):
    """What no script has a say in: the variables that the person's settings name, and whether this machine has a
    sandbox that is enforced.
    """

    env: frozenset[str]
    enforced: bool


class Authority(msgspec.Struct, frozen=True):
    """What a script can reach.

    `env` names the variables that it is given whatever they hold. `write` are folders of the workspace, None for all
    that `hold` leaves. A limit that is None is none. `actions` are what instar does for it, None for every action.
    `tools`: by full name the arguments that a tool asks a person about, as a set; no tool is one that asks nothing.

    The law: ``a <= b`` when on every axis `a` reaches no more than `b`, that is

    - `hold`: a's stands no later in `HOLDS` than b's;
    - `env`, `actions`: a's names are among b's;
    - `network`: a has none, or b has it;
    - `write`: each folder of a is one of b's or lies in one;
    - `limits`: each of a's is no higher than b's;
    - `tools`: each tool that b names asks in a about at least what it asks about in b.

    It is a partial order: reflexive, transitive, and two that are each ``<=`` the other reach the same. It is one of
    grants, which name each tool that ever asked (`settled` makes a candidate one): compared with what is
    live alone, a tool could be removed in one step and come back in the next, asking nothing.
    """

    hold: Hold
    env: frozenset[str] = _NONE
    network: bool = True
    write: frozenset[str] | None = None
    limits: ManifestLimits = OPEN
    actions: frozenset[str] | None = _NONE
    tools: dict[str, frozenset[str]] = {}

    def __le__(self, other: "Authority") -> bool:
        return not any(_more(other, self))

    def now(self, seen: Iterable[str], terms: Terms) -> "Authority":
        """Return what a successor that the agent makes inherits from this live version, as things are today.

        `seen` are the actions in the live version's recorded answers: a person's own script may use every one, and
        leaves its successor those that it was seen to use. Variables that the person's settings name are
        given to every script that is held to no manifest. Whatever the live version reaches, what the agent makes of it
        is held to the sandbox where there is one.
        """
        held = self if self.hold == "sandbox" else created(terms)
        actions = frozenset(seen) if self.actions is None else self.actions
        return msgspec.structs.replace(held, env=held.env | terms.env, actions=actions, tools=self.tools)

    def using(self, actions: Iterable[str]) -> "Authority":
        """Return the same with these actions too: those that a candidate was seen to use in its trials."""
        if self.actions is None:
            return self
        return msgspec.structs.replace(self, actions=self.actions | frozenset(actions))


def own(tools: Iterable[ScriptTool], terms: Terms) -> Authority:
    """Return the first grant of a script that a person wrote, or accepted by hand: for what the agent makes of it."""
    return msgspec.structs.replace(created(terms), actions=None, tools=asking(tools))


def created(terms: Terms) -> Authority:
    """Return the first grant of a script that the agent may create: what holds without a manifest, and no action."""
    return asked((), None, Authority("sandbox"), terms)


def reopened(grant: Authority) -> Authority:
    """Return a grant with the places that hold without a manifest; its variables, actions and tools stay."""
    least = unasked((), ())
    return msgspec.structs.replace(
        grant, hold="sandbox", network=least.network, write=least.write, limits=least.limits
    )


def asked(
    tools: Iterable[ScriptTool], manifest: Manifest | None, grant: Authority, terms: Terms
) -> Authority:
    """Return the authority that a candidate would have, before what it was seen to use (`Authority.using`).

    `grant` is the live version's as of now (`Authority.now`): a candidate without a manifest has its actions. Where
    no sandbox is enforced a manifest holds nothing but variables and actions, which instar gives itself.
    """
    held = manifest or unasked(terms.env, grant.actions or ())
    named = asking(tools)
    if not terms.enforced:
        return Authority("unbounded", held.env, actions=held.actions, tools=named)
    return Authority("sandbox", held.env, held.network, held.write, held.limits, held.actions, named)


def asking(tools: Iterable[ScriptTool]) -> dict[str, frozenset[str]]:
    """Return what each tool asks a person about, by its full name."""
    return {tool.full: frozenset(tool.patterns) for tool in tools}


def used(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the actions that a hook's answer asks for, by type; what is no action's name asks for nothing."""
    found = answer.get("actions")
    kinds = (
        (item.get("type") for item in found if isinstance(item, Mapping)) if isinstance(found, list) else ()
    )
    return frozenset(kind for kind in kinds if isinstance(kind, str) and ACTION.fullmatch(kind))


def raises(grant: Authority, candidate: Authority, others: Iterable[Authority] = ()) -> list[str]:
    """Return a sentence on each thing in which `candidate` would reach more than `grant`; empty: ask nobody.

    Empty exactly when ``settled(grant, candidate) <= grant``. `grant` is what `after` said last, taken through
    `Authority.now`; one that still has every action, a person's own, leaves none here. A new tool raises
    nothing, unless a script of `others` (the grants of the workspace's other scripts) had one of its name
    that asked about more: moving a tool from script to script is no way to stop its questions.
    """
    if grant.actions is None:
        grant = msgspec.structs.replace(grant, actions=_NONE)
    moved = _moved(grant, candidate, others)
    dropped = [_dropped(name, before, candidate.tools[name]) for name, before in moved.items()]
    return [*_more(grant, settled(grant, candidate)), *dropped]


def after(
    grant: Authority, candidate: Authority, approved: bool, others: Iterable[Authority] = ()
) -> Authority:
    """Return the grant once the gate is done with `candidate`, which is installed if it raises nothing or a person
    `approved` it, and else leaves `grant` as it was.

    So the grant follows what is live downwards by itself and upwards with a person alone. A version that is rolled
    back to was granted before: the grant is then ``after(grant, its authority, approved=True)``.
    """
    if not approved and raises(grant, candidate, others):
        return grant
    return settled(grant, candidate)


def settled(grant: Authority, candidate: Authority) -> Authority:
    """Return `candidate` as a grant: with what tools of `grant` asked about that it does not have."""
    tools = {**grant.tools, **candidate.tools}
    return msgspec.structs.replace(candidate, tools={name: args for name, args in tools.items() if args})


def _more(grant: Authority, candidate: Authority) -> Iterator[str]:
    """Yield a sentence on each thing in which `candidate` reaches more."""
    if HOLDS.index(candidate.hold) > HOLDS.index(grant.hold):
        yield f"it {_REACHES[candidate.hold]} (granted: it {_REACHES[grant.hold]})"
    else:  # that says it all
        yield from _more_places(grant, candidate)
    if candidate.env - grant.env:
        yield f"it would be given the variables {_list(candidate.env - grant.env)}"
    if grant.actions is not None and candidate.actions is None:
        yield "it would be able to use every action"
    elif grant.actions is not None and candidate.actions is not None and candidate.actions - grant.actions:
        yield f"it would use the actions {_list(candidate.actions - grant.actions)}"
    for name, args in sorted(grant.tools.items()):
        if args - candidate.tools.get(name, _NONE):
            yield _dropped(name, args, candidate.tools.get(name, _NONE))


def _more_places(grant: Authority, candidate: Authority) -> Iterator[str]:
    if candidate.network and not grant.network:
        yield "it would use the network"
    if grant.write is not None and (more := _uncovered(candidate.write, grant.write)):
        yield f"it would write {more} in the workspace (granted: {_list(grant.write) or 'nowhere'})"
    for name, unit in _UNITS.items():
        granted, wanted = getattr(grant.limits, name), getattr(candidate.limits, name)
        if granted is not None and (wanted is None or wanted > granted):
            now = "no limit" if wanted is None else f"{wanted}{unit}"
            yield f"its limit for {name} would become {now} (granted: {granted}{unit})"


def _uncovered(wanted: frozenset[str] | None, granted: frozenset[str]) -> str:
    if wanted is None:
        return "everywhere but in the guarded folders"
    return _list(inner for inner in wanted if not any(covers(outer, inner) for outer in granted))


def _moved(grant: Authority, candidate: Authority, others: Iterable[Authority]) -> dict[str, frozenset[str]]:
    """What other scripts' tools of the candidate's new names asked about, where the candidate asks less."""
    new = {name: args for name, args in candidate.tools.items() if name not in grant.tools}
    before: dict[str, frozenset[str]] = {}
    for other in others:
        for name in new.keys() & other.tools.keys():
            before[name] = before.get(name, _NONE) | other.tools[name]
    return {name: before[name] for name in sorted(before) if before[name] - new[name]}


def _dropped(name: str, before: frozenset[str], kept: frozenset[str]) -> str:
    dropped = _list(before - kept)
    if kept:
        return f"its tool {_plain(name)} would no longer ask a person about {dropped}"
    return f"its tool {_plain(name)} would run without asking a person first (so far it asks about {dropped})"


def _list(names: Iterable[str]) -> str:
    return ", ".join(_plain(name) for name in sorted(names))


def _plain(name: str) -> str:
    """A name as a person can tell it from others that look like it: quoted in ASCII unless it is plain."""
    return name if name.isascii() and name.isprintable() and not set(name) & set(", ") else ascii(name)
