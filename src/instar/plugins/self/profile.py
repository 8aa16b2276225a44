"""Profiles: a snapshot kept in the evolve workspace, and a run that starts with one (issue 9, item 7).

evolve's view offers the two methods; what they keep and give is checked here, like everything else that is set.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from instar.plugin import Method
from instar.plugins.self import changing, path, restricted, variables, words
from instar.plugins.self.access import Access, Caller
from instar.plugins.self.refusal import Refusal
from instar.plugins.self.snapshots import Snapshot
from instar.plugins.self.tree import Tree

KEEP: Final = ("evolve", "profiles", "keep")
"""The method of evolve's that keeps a profile."""
LOAD: Final = ("evolve", "profiles", "load")
"""The method of evolve's that gives one."""
_PARTS: Final = frozenset(("parameters", "variables"))


async def snapshot(access: Access, caller: Caller, name: Any, persist: Any) -> str:
    """Take a snapshot, and keep it in the evolve workspace too where `persist` says so. Raises `Refusal`."""
    if persist is None or persist is False:
        return await changing.snapshot(access, caller, name)
    if persist is not True:
        raise Refusal(words.error(f"'persist' must be bool, got {type(persist).__name__}"))
    wanted = path.text("name", name)
    method = _method(access.tree(), KEEP)
    if method is None:
        raise Refusal(words.refused_snapshot(wanted, words.NO_WORKSPACE))
    said = await changing.snapshot(access, caller, wanted)
    held = access.states.of(caller.session_id).snapshots.load(wanted)
    profile = {"parameters": dict(held.values), "variables": dict(held.variables)}
    if access.shown(profile) != profile:
        raise Refusal(
            words.not_kept(wanted, "it holds what looks like a secret, which is never written down")
        )
    try:
        kept = await access.called(method, caller.session_id, {"name": wanted, "profile": profile})
    except TimeoutError:
        raise Refusal(words.not_kept(wanted, f"no answer within {method.timeout:g} s")) from None
    except Exception as error:
        raise Refusal(words.not_kept(wanted, access.said(error))) from None
    return words.kept(said, access.shown(kept))


class Start:
    """The profile `name` that this run starts with: set once in each session that is no sub-agent's.

    `is_child` tells whether a session is one: it gets a copy of what its caller has. `chosen`: the person named a model
    for this run, and the profile's is left out.
    """

    def __init__(
        self, name: str, access: Access, is_child: Callable[[str], Awaitable[bool]], chosen: bool
    ) -> None:
        self._name = name
        self._access = access
        self._is_child = is_child
        self._chosen = chosen
        self._begun: set[str] = set()

    async def begin(self, session_id: str) -> str:
        """Set what the profile holds; return why it cannot be, "" when it is done or was before."""
        if session_id in self._begun or await self._is_child(session_id):
            return ""
        caller = Caller(session_id)
        try:
            held = await self._loaded(session_id)
            await changing.put(self._access, caller, held)
        except Refusal as why:
            return f"the profile {self._name} cannot be used: {str(why).removeprefix('Error: ')}"
        self._begun.add(session_id)
        return ""

    def forget(self, session_id: str) -> None:
        """A session is used no more."""
        self._begun.discard(session_id)

    async def _loaded(self, session_id: str) -> Snapshot:
        method = _method(self._access.tree(), LOAD)
        if method is None:
            raise Refusal(words.NO_PROFILES)
        try:
            found = await self._access.called(method, session_id, {"name": self._name})
        except Exception as error:
            raise Refusal(self._access.said(error)) from None
        held = checked(found)
        kept = {name: value for name, value in held.values.items() if not (self._chosen and name == "model")}
        return Snapshot(kept, held.variables)


def checked(found: Any) -> Snapshot:
    """Return a profile all of which may be set. Raises `Refusal` with the reason."""
    if type(found) is not dict or set(found) - _PARTS:
        raise Refusal("a profile holds `parameters` and `variables`, and nothing else")
    values, held = found.get("parameters", {}), found.get("variables", {})
    if type(values) is not dict or type(held) is not dict:
        raise Refusal("`parameters` and `variables` are objects")
    for name, value in values.items():
        if name not in restricted.RESTRICTED:
            raise Refusal(f"{words.key(name)} is no parameter of a profile")
        restricted.check(name, value)
    return Snapshot(values, variables.checked(held))


def _method(tree: Tree, names: path.Names) -> Method | None:
    """A method by its path; None where nobody declares it."""
    try:
        found = tree.find(names)
    except Refusal:
        return None
    return found.node if found is not None and isinstance(found.node, Method) else None
