"""One run of a case, in a copy of the workspace of its own that is thrown away.

A prompt is answered in an ephemeral session: the scripts of the copy register their tools (`discover`), say the system
prompt (`mutate_request`) and carry out calls (`execute_tool`), in the sandbox; no other hook is called, and the session
has no other tool. The model is called from outside the sandbox.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from instar.plugin import Apart, Aside, Client, Invalid, NotFound, OwnTool, ToolFailure, ids, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.evals.case import Case
from instar.plugins.evolve.evals.check import (
    CAUSE,
    CaseAnswer,
    CheckResult,
    ToolCall,
    look,
    model_ref,
    total,
)
from instar.plugins.evolve.gate.score import FOLDER, Failed, OutOfTime
from instar.plugins.evolve.trial import Changes, NoTrial, Trial, Trials, content, listed
from instar.plugins.evolve.workspace import STAGES


class CaseRun(msgspec.Struct, frozen=True):
    """One run of a case: its score, 0 to 1, with what each check found. `why` says what kept it from an answer.

    `seconds` is what it took, `tokens` and `cost` (None: unknown) what its model calls used.
    """

    name: str
    score: float
    checks: tuple[CheckResult, ...] = ()
    why: str = ""
    answer: str = ""
    seconds: float = 0.0
    tokens: int = 0
    cost: float | None = 0.0


class CaseRunner(msgspec.Struct, frozen=True):
    """Runs cases on the workspace `source`.

    `timeout`, in seconds, is for one call of a script or of a check's program. `client` asks models; None where no case
    needs one. `model` answers where a case names none; "" is the agent's, else the default one. `session_id` is the
    session for which the runs are booked; "" for none.
    """

    trials: Trials
    source: Path
    timeout: float
    client: Client | None = None
    model: str = ""
    session_id: str = ""

    async def run(self, case: Case, changes: Changes, until: float) -> CaseRun:
        """Run a case once, in the workspace with `changes`.

        Raises `OutOfTime` when the monotonic clock has passed `until`, `Failed` where what ran proves nothing, and
        `NoTrial` where no model, or no sandbox, is to be had.
        """
        begun = time.monotonic()
        try:
            async with asyncio.timeout(None if until == math.inf else until - begun):
                return await self._run(case, changes, begun)
        except TimeoutError:
            raise OutOfTime from None

    async def _run(self, case: Case, changes: Changes, begun: float) -> CaseRun:
        async with self.trials.copy(self.source, changes) as trial:
            changed = trial.watch()
            try:
                answered, apart, why = await self._answer(case, _Stage(self, trial, changes))
            except script.ScriptFailure as error:
                answered, apart, why = CaseAnswer(""), None, str(error)
            if touched := changed():
                raise Failed(f"{', '.join(touched[:5])} was changed while it ran, so it proves nothing")
        # In a copy of their own: a script may have left a module there that a program of a check would import.
        async with self.trials.copy(self.source, changes) as trial:
            asked = () if why else case.checks
            checks = [await look(one, case, answered, trial, self.client, self.timeout) for one in asked]
        costs = [0.0 if apart is None else apart.cost, *(one.cost for one in checks)]
        known = [cost for cost in costs if cost is not None]
        return CaseRun(
            case.name,
            total(checks) if checks else 0.0,
            tuple(checks),
            why,
            answered.text,
            time.monotonic() - begun,
            (0 if apart is None else apart.tokens) + sum(one.tokens for one in checks),
            sum(known) if len(known) == len(costs) else None,
        )

    async def _answer(self, case: Case, stage: "_Stage") -> tuple[CaseAnswer, Apart | None, str]:
        """What comes of the case, what the session took, and why there is no answer, "" for there is one."""
        if case.call is None:
            return await self._session(case, stage)
        name, hook = case.call
        try:
            fields = await stage.ask(name, hook, msgspec.json.decode(case.body))
        except script.UnknownHook as error:
            return CaseAnswer(""), None, str(error)
        return CaseAnswer(msgspec.json.encode(fields, order="sorted").decode(), fields=fields), None, ""

    async def _session(self, case: Case, stage: "_Stage") -> tuple[CaseAnswer, Apart | None, str]:
        assert self.client is not None
        tools = await stage.tools()
        system = await stage.system(case)
        limits = case.limits
        try:
            found = await self.client.aside(
                Aside(
                    cause=CAUSE,
                    session_id=self.session_id,
                    title=f"eval {case.name}",
                    system=system,
                    prompt=case.body,
                    agent=case.agent,
                    model=model_ref(case.model or self.model),
                    script=stage.trial.outside(case.script) if case.script else None,
                    own=tools,
                    steps=limits.steps,
                    timeout=limits.seconds,
                    tokens=limits.tokens,
                    cost=limits.cost,
                )
            )
        except (Invalid, NotFound) as error:
            raise NoTrial(f"{FOLDER}/{case.name}.md cannot be asked: {error}") from None
        return CaseAnswer(found.text, stage.called), found, _unanswered(case, found)


def _unanswered(case: Case, found: Apart) -> str:
    """Why a session came to no answer that counts, "" if it did. Raises `NoTrial` where no model answered."""
    if found.ended == "answered":
        return ""
    # What a scripted model fails with names it: its script expects something else.
    if found.own_limit or (case.script and found.error.startswith(f"{case.model}: ")):
        return found.error
    raise NoTrial(f"{FOLDER}/{case.name}.md has no answer: {found.error}")


class _Stage:
    """The scripts of one copy, at work for one case. `called` are the calls of their tools so far."""

    def __init__(self, runner: CaseRunner, trial: Trial, changes: Changes) -> None:
        self._timeout, self.trial, self._source = runner.timeout, trial, runner.source
        self._changes = changes
        self._scripts = [name for name, runs in listed(runner.source, "hooks", changes).items() if runs]
        # The kernel does not know an overlay that is mounted twice.
        self._alone = asyncio.Lock()
        self.called: list[ToolCall] = []
        # Like that of any session: a script must not know an eval by it.
        self._session: wire.Plain = {"id": ids.new("ses")}
        self._prompts = {stage: self._prompt(stage) for stage in STAGES}

    async def ask(self, name: str, hook: str, fields: wire.Plain) -> protocol.Answer:
        """Call a hook of a script. Raises `ScriptFailure` and `UnknownHook`."""
        given = {key: value for key, value in fields.items() if key != "hook"} | {"prompts": self._prompts}
        # Else sets of texts are in another order in each run of Python.
        run = partial(self.trial.run, env={"PYTHONHASHSEED": "0"})
        async with self._alone:
            return await script.ask(run, self.trial.root / "hooks" / name, hook, given, self._timeout)

    async def tools(self) -> Mapping[str, OwnTool]:
        """Return the tools of all scripts by their full names. Raises `ScriptFailure`."""
        said = [discovery.register(name, await self._known(name, "discover", {})) for name in self._scripts]
        left_out, _ = discovery.collisions(said)
        return {
            tool.full: OwnTool(tool.description, tool.parameters, partial(self._call, one.file, tool))
            for one in said
            for tool in one.tools
            if tool.full not in left_out
        }

    async def system(self, case: Case) -> str:
        """Return the system prompt that the scripts say; "" where none does. Raises `ScriptFailure`."""
        agent = case.agent or "build"
        asked = {"role": "user", "agent": agent, "parts": [{"type": "text", "text": case.body}]}
        fields: wire.Plain = {"session": {**self._session, "agent": agent}, "history": [asked]}
        said = [await self._known(name, "mutate_request", fields) for name in self._scripts]
        return "\n\n".join(protocol.texts(protocol.merge(said), "system"))

    async def _known(self, name: str, hook: str, fields: wire.Plain) -> protocol.Answer:
        try:
            return await self.ask(name, hook, fields)
        except script.UnknownHook:
            return {}

    async def _call(self, file: str, tool: discovery.ScriptTool, args: wire.Plain) -> str:
        fields: wire.Plain = {"session": self._session, "tool": tool.name, "args": args}
        try:
            answer = await self.ask(file, "execute_tool", fields)
        except (script.ScriptFailure, script.UnknownHook) as error:
            self.called.append(ToolCall(tool.full, tool.name, args, str(error)))
            raise ToolFailure(str(error)) from None
        failed = "result" not in answer and answer.get("error")
        text = protocol.text(answer, "error" if failed else "result") or "done"
        self.called.append(ToolCall(tool.full, tool.name, args, text))
        if failed:
            raise ToolFailure(text)
        return text

    def _prompt(self, stage: str) -> str:
        try:
            return content(self._source, f"prompts/{stage}.md", self._changes).decode(errors="replace")
        except OSError:
            return ""


async def each(
    runner: CaseRunner,
    jobs: Sequence[tuple[Case, Changes]],
    until: float,
    at_once: int,
    told: Callable[[CaseRun], None] = lambda run: None,
) -> list[CaseRun]:
    """Run cases, `at_once` at a time, and return their runs in order; `told` hears of each as it ends.

    Raises what the first that fails raises.
    """
    slots = asyncio.Semaphore(at_once)

    async def one(case: Case, changes: Changes) -> CaseRun:
        async with slots:
            run = await runner.run(case, changes, until)
        told(run)
        return run

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*job)) for job in jobs]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]
