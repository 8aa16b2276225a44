"""Who is heard on what guards: the blocks of `instar.config.section.SECTIONS` in a project's files.

The law: nothing that the model can write loosens a guard. Its commands can write a project's files, also those
of a folder that the person trusts. So the trust list keeps these blocks as the person saw them (`Vouched`), and
they hold in that form, whatever the file says by now or whether it is still there. What a file says beyond
that is heard only where it guards more than everything else that holds (issue 6, "It cannot be bricked").

A field of a block says by ``extra={"tighter": …}`` of its `msgspec.Meta` which way guards more: a list names its
values from loose to tight; ``less`` and ``more`` compare numbers; ``fewer`` is for lists of what is let
through, ``added`` for lists of what is kept. What says nothing is not heard at all.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from instar.config.layer import Layer, Vouched, merge
from instar.config.section import SECTIONS, kind_of
from instar.wire import Plain

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "less": lambda said, held: said < held,
        "more": lambda said, held: said > held,
        "fewer": lambda said, held: set(said) < set(held),
        "added": lambda said, held: not set(said) <= set(held),
    }
)


def guarded(layers: Sequence[Layer]) -> tuple[list[Layer], list[str]]:
    """Return the layers, lowest first, with what each may say on guards, and a sentence where one may not say all.

    What comes back says in `Layer.vouched` what was heard, so that it comes back the same another time. The data
    must have passed `Config.from_data`.
    """
    # First each as the person vouches for it: nothing that one layer still has to prove may excuse another.
    asked = [_asked(layer) for layer in layers]
    found = [layer if layer.vouched is None else _with(layer, layer.vouched.sections) for layer in asked]
    dropped: list[str] = []
    for index, layer in enumerate(asked):
        for name in SECTIONS if layer.vouched else ():
            said, seen = layer.data.get(name, {}), found[index].data.get(name, {})
            if said != seen:
                kept = tightened(name, merge(found).data.get(name, {}), said)
                if kept:
                    found[index] = _with(layer, {**_sections(found[index]), name: {**seen, **kept}})
                dropped += _sentences(layer, name, merge(found).data.get(name, {}))
    return found, dropped


def tightened(name: str, held: Plain, said: Plain) -> Plain:
    """Return the entries of `said`, of the block `name`, that guard more than `held`, the block as it is without."""
    values = _filled(name, held)
    kept: Plain = {}
    for field in msgspec.structs.fields(kind_of(name)):
        if field.name in said and _is_tighter(_rule(field.type), said[field.name], values[field.name]):
            kept[field.name] = said[field.name]
            if _rule(field.type) == "added":
                kept[field.name] = list(dict.fromkeys([*values[field.name], *said[field.name]]))
    return kept


def _asked(layer: Layer) -> Layer:
    """The layer; one of a stranger's project about which nothing is known is vouched for by nobody."""
    if layer.vouched is None and layer.scope == "project" and not layer.trusted:
        return msgspec.structs.replace(layer, vouched=Vouched(layer.origin))
    return layer


def _sections(layer: Layer) -> Plain:
    return {name: layer.data[name] for name in SECTIONS if name in layer.data}


def _with(layer: Layer, sections: Plain) -> Layer:
    """The layer with these blocks in the place of its own, as what was heard of it."""
    rest = {key: value for key, value in layer.data.items() if key not in SECTIONS}
    vouched = msgspec.structs.replace(layer.vouched or Vouched(""), sections=sections)
    return msgspec.structs.replace(layer, data={**rest, **sections}, vouched=vouched)


def _filled(name: str, block: Plain) -> Plain:
    return {**msgspec.structs.asdict(kind_of(name)()), **block}


def _rule(kind: Any) -> Any:
    """Which way guards more, as the type of a field says it; None where it does not."""
    marks = [mark.extra for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, msgspec.Meta)]
    return next((extra["tighter"] for extra in marks if extra and "tighter" in extra), None)


def _is_tighter(rule: Any, said: Any, held: Any) -> bool:
    if rule is None:
        return False
    if isinstance(rule, str):
        return _COMPARED[rule](said, held)
    return bool(rule.index(said) > rule.index(held))


def _sentences(layer: Layer, name: str, holds: Plain) -> list[str]:
    """What to tell the person about a block of `layer` that is not the one which they saw; `holds` is what holds."""
    vouched = layer.vouched or Vouched("")
    said, seen, values = layer.data.get(name, {}), vouched.sections.get(name), _filled(name, holds)
    differs = [key for key in said if _missing(said[key], values[key])]
    if not layer.trusted:
        why = "was left out: an untrusted project may only guard more than holds without it"
        return [f"{layer.origin}: {name}.{key} {why}" for key in differs]
    differs += [key for key, value in (seen or {}).items() if _stays(value, said.get(key), values[key])]
    if not differs:
        return []
    what = (
        "was left out: it is not what was trusted" if seen is None else "is not what was trusted, which holds"
    )
    return [f"{layer.origin}: {name} {what}; read it, then: instar trust {shlex.quote(vouched.folder)}"]


def _stays(seen: Any, said: Any, holds: Any) -> bool:
    """Whether something that was seen, and that the file no longer says, holds all the same."""
    if isinstance(seen, list):
        return not (set(seen) & set(holds)) <= set(said or ())
    return said is None


def _missing(one: Any, other: Any) -> bool:
    """Whether something of `one` is not in `other`."""
    if isinstance(one, list) and isinstance(other, list):
        return not set(one) <= set(other)
    return bool(one != other)
