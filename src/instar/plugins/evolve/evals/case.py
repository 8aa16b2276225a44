"""The file form of an eval: ``evals/NAME.md``, front matter with checks, and below it what the agent is asked.

A *case* is one such file. It is a prompt for a session, or, with ``call: SCRIPT HOOK``, the JSON that a hook script is
called with. A file without ``checks`` is no eval. `docs/guides/evals.md` describes the fields.
"""

import difflib
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from instar.plugin import document, wire
from instar.plugin import front_matter as yaml
from instar.plugins.evolve.gate.score import FOLDER
from instar.plugins.evolve.trial import Changes, content, listed

LARGEST: Final = 1 << 20
"""Bytes of an eval's file."""
ECHO: Final = "scripted/echo"
"""The one scripted model that needs no script beside it."""

CheckKind = Literal["contains", "not_contains", "matches", "equals", "tool", "run", "judge"]
_KINDS: Final = get_args(CheckKind)
_FIELDS: Final = ("model", "agent", "repeats", "checks", "limits", "call", "judge_model", "tolerance")
_MOST: Final = 1000
"""Repeats of a case."""
_TOLERANCE: Final = 0.1
"""By how much the mean of a case with chance may fall: 90 pairs show of two equal versions that it did not."""


class BadEval(Exception):
    """A file that is meant as an eval and cannot be used; the text says where, what is wrong, what is expected."""


class Check(msgspec.Struct, frozen=True):
    """One check: its kind, what it compares with, and how much it counts.

    `model` is that of a judge ("": the default one), and `script` the path, in the workspace, of what it plays.
    """

    kind: CheckKind
    value: Any
    weight: float = 1.0
    model: str = ""
    script: str = ""

    def text(self) -> str:
        """Return it for a person, on one line."""
        said = self.value if isinstance(self.value, str) else msgspec.json.encode(self.value).decode()
        flat = " ".join(said.split())
        return f"{self.kind} {flat if len(flat) <= 60 else f'{flat[:60]}…'}"


class CaseLimits(msgspec.Struct, frozen=True):
    """What one run of a case may use. `cost` is in US dollars; 0 tokens, or a cost of 0, is no limit."""

    seconds: float = 60.0
    tokens: int = 100_000
    cost: float = 0.0
    steps: int = 10


class Case(msgspec.Struct, frozen=True):
    """An eval that is a file. `body` is the prompt, or the input of `call`: a script in ``hooks/`` and its hook.

    `script` is the path, in the workspace, of what a scripted model plays; "" for none. `allowed` is by how much its
    mean may fall, None where the file does not say.
    """

    name: str
    body: str
    checks: tuple[Check, ...]
    call: tuple[str, str] | None = None
    model: str = ""
    script: str = ""
    agent: str = ""
    repeats: int = 1
    limits: CaseLimits = CaseLimits()
    allowed: float | None = None

    @property
    def tolerance(self) -> float:
        """By how much its mean may fall."""
        return self.allowed if self.allowed is not None else 0.0 if self.is_exact else _TOLERANCE

    @property
    def asks_model(self) -> bool:
        """Whether a run of it needs a model."""
        return self.call is None or any(check.kind == "judge" for check in self.checks)

    @property
    def is_exact(self) -> bool:
        """Whether no model answers by chance, and it is not to be repeated, so that one run says all."""
        models = [check.model for check in self.checks if check.kind == "judge"]
        models += [] if self.call is not None else [self.model]
        return self.repeats == 1 and all(model.startswith("scripted/") for model in models)


class Suite(NamedTuple):
    """The cases of a workspace by name, the files that cannot be used, and the programs that checks run."""

    cases: list[Case]
    problems: dict[str, str]
    programs: frozenset[str]


def load(root: Path, changes: Changes) -> Suite:
    """Return the evals that are files in the workspace `root` with `changes`."""
    beside = listed(root, FOLDER, changes)
    cases: list[Case] = []
    problems: dict[str, str] = {}
    for file in beside:
        if not file.endswith(".md"):
            continue
        name = file.removesuffix(".md")
        try:
            found = parse(name, content(root, f"{FOLDER}/{file}", changes), beside)
        except (OSError, document.DocumentError) as error:
            problems[name] = f"{FOLDER}/{file}: it cannot be read: {error}"
        except BadEval as error:
            problems[name] = str(error)
        else:
            cases += [found] if found is not None else []
    programs = frozenset(check.value for case in cases for check in case.checks if check.kind == "run")
    return Suite(cases, problems, programs)


def parse(name: str, data: bytes, beside: Mapping[str, bool]) -> Case | None:
    """Return the case that a file says, None for one without checks.

    `beside` are the files of ``evals/``: whether each is executable. Raises `BadEval`.
    """
    path = f"{FOLDER}/{name}.md"
    if len(data) > LARGEST:
        raise BadEval(f"{path}:1: expected at most {LARGEST} bytes, found {len(data)}")
    try:
        found = yaml.front_matter(data.decode(), path)
    except UnicodeDecodeError as error:
        raise BadEval(f"{path}:1: expected UTF-8 text (byte {error.start})") from None
    except document.DocumentError as error:
        raise BadEval(f"{path}:{error.line}: {error.message}") from None
    if "checks" not in found.data:
        return None
    return _Reader(name, path, found, beside).case()


class _Reader:
    """Reads the fields of one file."""

    def __init__(self, name: str, path: str, found: yaml.FrontMatter, beside: Mapping[str, bool]) -> None:
        self._name, self._path, self._found, self._beside = name, path, found, beside

    def case(self) -> Case:
        self._known(self._found.data, _FIELDS, ())
        call = self._call()
        model = self._text(("model",))
        body = self._found.body.strip()
        if not body:
            what = "the hook's input as JSON" if call else "the prompt"
            raise BadEval(f"{self._path}:{self._found.first}: expected {what} below the front matter")
        if call:
            self._is_json(body)
        return Case(
            self._name,
            body,
            self._checks(call),
            call,
            model,
            self._script(model, ("model",)),
            self._text(("agent",)),
            int(self._number(("repeats",), 1, 1, _MOST, whole=True)),
            self._limits(),
            None if self._value(("tolerance",)) is None else self._number(("tolerance",), 0, 0, 0.5),
        )

    def _fail(self, place: yaml.Place, message: str) -> BadEval:
        field = ".".join(map(str, place))
        return BadEval(f"{self._path}:{self._found.line(place)}: {f'{field}: ' if field else ''}{message}")

    def _known(self, given: Mapping[str, Any], known: Collection[str], place: yaml.Place) -> None:
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
                raise self._fail((*place, name), f"there is no such field; {meant}")

    def _value(self, place: yaml.Place) -> Any:
        value: Any = self._found.data
        for key in place:
            value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
        return value

    def _text(self, place: yaml.Place, *, needed: bool = False) -> str:
        value = self._value(place)
        if value is None and not needed:
            return ""
        # What stood there: 1.10 is a text as good as any.
        text = self._found.written.get(place, "") if not isinstance(value, dict | list) else ""
        if not text.strip():
            raise self._fail(place, f"expected a text, found {msgspec.json.encode(value).decode()[:60]}")
        return text

    def _number(
        self, place: yaml.Place, default: float, least: float, most: float, *, whole: bool = False
    ) -> float:
        value = self._value(place)
        if value is None:
            return default
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= most:
            bound = f"{least:g} to {most:g}" if most < math.inf else f"{least:g} or more"
            kind = "a whole number" if whole else "a number"
            raise self._fail(place, f"expected {kind}, {bound}, found {value!r}")
        return float(value)

    def _limits(self) -> CaseLimits:
        given = self._value(("limits",))
        if given is None:
            return CaseLimits()
        if not isinstance(given, dict):
            raise self._fail(("limits",), "expected fields such as seconds: 30")
        self._known(given, CaseLimits.__struct_fields__, ("limits",))
        unset = CaseLimits()
        return CaseLimits(
            self._number(("limits", "seconds"), unset.seconds, 0.1, 86_400),
            int(self._number(("limits", "tokens"), unset.tokens, 0, math.inf, whole=True)),
            self._number(("limits", "cost"), unset.cost, 0, math.inf),
            int(self._number(("limits", "steps"), unset.steps, 1, 1000, whole=True)),
        )

    def _call(self) -> tuple[str, str] | None:
        text = self._text(("call",))
        if not text:
            return None
        script, _, hook = text.removeprefix("hooks/").partition(" ")
        if not hook or "/" in text.removeprefix("hooks/") or " " in hook:
            raise self._fail(
                ("call",), f"expected a script and its hook, such as bot.sh execute_tool, found {text!r}"
            )
        return script, hook

    def _is_json(self, body: str) -> None:
        try:
            msgspec.json.decode(body, type=dict)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadEval(
                f"{self._path}:{self._found.first}: expected the hook's input, a JSON object: {error}"
            ) from None

    def _script(self, model: str, place: yaml.Place) -> str:
        provider, _, name = model.partition("/")
        if provider != "scripted" or model == ECHO:
            return ""
        if f"{name}.txt" not in self._beside:
            raise self._fail(place, f"there is no {FOLDER}/{name}.txt, the script that {model} plays")
        return f"{FOLDER}/{name}.txt"

    def _checks(self, call: tuple[str, str] | None) -> tuple[Check, ...]:
        given = self._value(("checks",))
        if not isinstance(given, list) or not given:
            raise self._fail(("checks",), "expected a list of checks, such as - contains: Hello")
        return tuple(self._check(("checks", at), one, call is not None) for at, one in enumerate(given))

    def _check(self, place: yaml.Place, given: Any, is_call: bool) -> Check:
        if not isinstance(given, dict):
            raise self._fail(place, f"expected a check, such as contains: Hello, found {given!r}")
        self._known(given, (*_KINDS, "weight", "judge_model"), place)
        kinds = [kind for kind in _KINDS if kind in given]
        if len(kinds) != 1:
            raise self._fail(
                place, f"expected one of {', '.join(_KINDS)}, found {' and '.join(kinds) or 'none'}"
            )
        kind: CheckKind = kinds[0]
        weight = self._number((*place, "weight"), 1.0, 0.001, 1000)
        here = (*place, kind)
        if (kind == "equals") > is_call or (kind == "tool") > (not is_call):
            raise self._fail(here, f"{kind} is for {'a call' if kind == 'equals' else 'a prompt'}")
        if kind == "equals":
            return Check(kind, self._fields(here), weight)
        value = self._text(here, needed=True)
        if kind == "matches":
            self._expression(here, value)
        if kind == "run":
            self._program(here, value)
        if kind != "judge":
            return Check(kind, value, weight)
        named = (*place, "judge_model") if "judge_model" in given else ("judge_model",)
        model = self._text(named)
        return Check(kind, value, weight, model, self._script(model, named))

    def _fields(self, place: yaml.Place) -> wire.Plain:
        value = self._value(place)
        if not isinstance(value, dict) or not value:
            raise self._fail(place, "expected fields of the answer, such as result: Hello")
        return value

    def _expression(self, place: yaml.Place, value: str) -> None:
        try:
            compiled(value)
        except ValueError as error:
            raise self._fail(place, str(error)) from None

    def _program(self, place: yaml.Place, value: str) -> None:
        if value not in self._beside:
            raise self._fail(place, f"there is no {FOLDER}/{value}")
        if not self._beside[value]:
            raise self._fail(place, f"{FOLDER}/{value} is missing its run bit: chmod +x {FOLDER}/{value}")


def compiled(pattern: str) -> Any:
    """Return a regular expression that can be interrupted. Raises `ValueError`."""
    # Imported here: it takes 18 ms, which only an eval with an expression spends.
    import regex

    try:
        return regex.compile(pattern, regex.V0)
    except regex.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    except (MemoryError, RecursionError):
        raise ValueError(f"{pattern[:40]!r} has too many levels") from None
