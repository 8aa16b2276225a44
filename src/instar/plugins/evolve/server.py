"""The plugin function: evolve's hooks on the core's hook points.

A hook script that fails never fails the core: what goes wrong is caught, logged and recovered here.
"""

import asyncio
import logging
from typing import Any

from instar.plugin import Hooks, NotFound, PluginInput, PromptBody, Tool, View, message, points, process, wire
from instar.plugins.evolve import discovery, protocol, script, script_tools, settings, tools
from instar.plugins.evolve.evolution import Evolution
from instar.plugins.evolve.history import History
from instar.plugins.evolve.recovery import Recovery
from instar.plugins.evolve.scripts import Outcome, Scripts
from instar.plugins.evolve.workspace import Located, Workspace, locate, signature

log = logging.getLogger("instar.evolve")


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Start evolve on the workspace that this run names, and return its hooks; none when it is inactive.

    Inactive, with one line in the log: when there is no such folder, or nobody trusted it.
    """
    located = locate(input.environment, input.flags, options or {})
    reason = _inactive(input, located)
    if reason:
        log.warning("evolve=inactive reason=%s", script.show(reason))
        view = View("evolve", "The evolve workspace, which is not in use.", {"problems": lambda: [reason]})
        input.registry.add_view(view)
        return {}
    evolve = Evolve(input, Workspace(located.root))
    await evolve.start()
    return evolve.hooks()


def _inactive(input: PluginInput, located: Located) -> str | None:  # noqa: A002 - as above
    if not located.root.is_dir():
        return f"there is no workspace at {located.root} ({located.source}): make it, or set INSTAR_WORKSPACE"
    if not located.by_person and not input.trusted(located.root):
        return f"the workspace {located.root} ({located.source}) is not trusted: instar trust {located.root}"
    return None


class Evolve:
    """evolve at work on one workspace."""

    def __init__(self, given: PluginInput, workspace: Workspace) -> None:
        self._input = given
        self._workspace = workspace
        self._processes = process.Processes()
        self._settings: settings.Settings | None = None
        self._settings_version: object = ""
        self._setting_problem: str | None = None
        self._warnings: list[str] = []
        self._problems: list[str] = []
        self._prepared = False
        self._names: list[str] = []
        self._frozen: dict[str, list[str]] = {}
        self._refreshing = asyncio.Lock()
        self.tools: dict[str, Tool] = {}
        self.scripts = Scripts(self._processes, workspace, given.kv, self._place)
        self.history = History(self._processes, workspace.root)
        self.recovery = Recovery(self.scripts, given.client)
        self.evolution = Evolution(
            self._processes, workspace, self.scripts, self.history, given.client, self._place, self._installed
        )

    async def start(self) -> None:
        """Read the settings, make the repository, and discover the scripts."""
        self._input.registry.add_view(self._view())
        await self.refresh()

    def hooks(self) -> Hooks:
        """Return what evolve does at which hook point."""
        return {
            "step.before": self._step,
            "experimental.chat.system.transform": self._system,
            "message.completed": self._completed,
            "turn.end": self._turn_end,
            "tool.execute.before": self._tool_before,
            "tool.execute.after": self._tool_after,
            "tool.execute.failure": self._tool_failure,
            "experimental.session.compacting": self._compacting,
            "event": self._event,
            "tool": self.tools,
            # A script, a test or a commit has limits of its own.
            "timeout": None,
            "dispose": self._processes.close,
        }

    # -- settings, scripts, tools --------------------------------------------------------------------

    async def refresh(self) -> None:
        """Take up what changed in the settings, the scripts and the prompts' names."""
        async with self._refreshing:
            changed = self._read_settings()
            if self._settings is None:
                return
            if not self._prepared:
                self._prepared = True
                await self.history.prepare()
            changed = await self.scripts.refresh() or changed
            names = self._workspace.prompt_files()
            if changed or names != self._names:
                self._names = names
                self._rebuild()

    async def _installed(self) -> None:
        await self.refresh()

    def _rebuild(self) -> None:
        registrations = self.scripts.registrations
        left_out, problems = discovery.collisions(registrations)
        for problem in problems:
            log.warning("evolve=collision problem=%s", script.show(problem))
        self._problems = problems
        theirs = script_tools.build(self.evolution, self.recovery, left_out)
        prefixes = list(dict.fromkeys(registration.name for registration in registrations))
        ours = tools.build(self.evolution, prefixes, list(theirs))
        self.tools.clear()
        self.tools.update(ours | theirs)

    def _read_settings(self) -> bool:
        version = _version(self._workspace)
        if version == self._settings_version:
            return False
        self._settings_version = version
        try:
            loaded = settings.load(self._workspace.config, self._input.environment)
        except settings.SettingsError as error:
            kept = "evolve is off until it is mended" if self._settings is None else "the last good ones stay"
            self._setting_problem = f"{error}; {kept}"
            log.error("evolve=settings problem=%s", script.show(self._setting_problem))
            return False
        self._setting_problem = None
        self._warnings = loaded.warnings
        for warning in loaded.warnings:
            log.warning("evolve=settings problem=%s", script.show(warning))
        self._settings = loaded.settings
        return True

    def _place(self) -> script.Place:
        chosen = self._settings or settings.Settings()
        root = self._workspace.root
        environment = script.environment(self._input.environment, root, chosen.pass_environment)
        return script.Place(root, environment, chosen.timeout, warm=chosen.spawn == "warm")

    def problems(self) -> list[str]:
        """Return what is wrong now, a sentence each."""
        own = [self._setting_problem, self.history.problem]
        return [text for text in own if text] + self._warnings + self.scripts.problems + self._problems

    def _view(self) -> View:
        return View(
            "evolve",
            "The evolve workspace: its scripts, their tools, and what is wrong with them.",
            {
                "workspace": lambda: str(self._workspace.root),
                "scripts": lambda: [one.file for one in self.scripts.registrations],
                "tools": lambda: list(self.tools),
                "problems": self.problems,
            },
        )

    # -- hook points ---------------------------------------------------------------------------------

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        await self.refresh()
        if not self.scripts.failing:
            self.recovery.succeeded(given.session_id, "discover")
        for failure in self.scripts.take_failures():
            await self.recovery.failed(given.session_id, given.agent, failure)

    async def _system(self, given: points.SystemInput, output: points.SystemOutput) -> None:
        session_id = given.session_id
        if self._settings is None or session_id is None or given.purpose != "turn":
            return
        managed = await self._managed(session_id)
        system = self.recovery.take_system(session_id) or managed
        if system:
            output.system[:] = system

    async def _managed(self, session_id: str) -> list[str]:
        """The session's own system prompt, asked for once and frozen; empty when no script manages it."""
        if session_id in self._frozen:
            return self._frozen[session_id]
        kept = await self._input.kv.get(f"system:{session_id}")
        if isinstance(kept, dict):
            return self._frozen.setdefault(session_id, protocol.texts(kept, "system"))
        if not self.scripts.answers("mutate_request"):
            return []
        history = await self._history(session_id)
        agent = next((said["agent"] for said in reversed(history) if said["role"] == "user"), None)
        session = {"id": session_id} | ({"agent": agent} if agent else {})
        outcome = await self._run(
            "mutate_request", session_id, agent, {"session": session, "history": protocol.once(history)}
        )
        system = protocol.texts(outcome.answer, "system")
        if not outcome.failures:
            await self._input.kv.set(f"system:{session_id}", {"system": system} if system else {})
            self._frozen[session_id] = system
        return system

    async def _completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        if given.message.summary or not self._listens("observe_message"):
            return
        parts = given.parts
        fields = {
            "session": {"id": given.session_id, "agent": given.message.agent},
            "thinking": "\n".join(part.text for part in parts if isinstance(part, message.ReasoningPart)),
            "calls": [message.part_to_plain(part) for part in parts if isinstance(part, message.ToolPart)],
            "answer": _answer(parts),
        }
        async with self.evolution.recording("observe_message", given.session_id, given.message.id):
            outcome = await self.scripts.call_all("observe_message", fields)
        script_tools.log_effects("*", "observe_message", given.session_id, outcome.answer)

    async def _turn_end(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        calls = any(isinstance(part, message.ToolPart) for part in given.parts)
        if calls or given.message.error is not None or not self._listens("idle"):
            return
        session = {"id": given.session_id, "agent": given.agent}
        fields = {"session": session, "answer": _answer(given.parts)}
        outcome = await self._run("idle", given.session_id, given.agent, fields)
        text = protocol.text(outcome.answer, "continue")
        if text:
            prompt = wire.to_plain(PromptBody.text(text, synthetic=True, agent=given.agent))
            output.follow_ups.append({"source": "evolve.idle", "prompt": prompt})

    async def _tool_before(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        if self._settings is not None and not self._is_own(given.tool):
            await self.evolution.watch(given.tool, given.session_id, given.call_id)
        await self._observe_call("tool_before", given, {"args": output.args})

    async def _tool_after(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        await self._ended(given, {"title": output.title, "output": output.output})

    async def _tool_failure(self, given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        await self._ended(given, {"title": "", "output": output.error})

    async def _ended(self, given: points.ToolAfterInput, said: wire.Plain) -> None:
        await self._observe_call("tool_after", given, said)
        await self.evolution.watched(given.tool, given.session_id, given.call_id)

    def _is_own(self, tool: str) -> bool:
        """Whether a tool is evolve's or a script's: those commit what they change themselves."""
        return tool in self.tools or any(tool in one.aliases for one in self.tools.values())

    async def _observe_call(
        self, hook: str, given: points.ToolCallInput | points.ToolAfterInput, said: wire.Plain
    ) -> None:
        if self._listens(hook):
            session = {"id": given.session_id}
            call: wire.Plain = {"session": session, "tool": given.tool, "callID": given.call_id}
            outcome = await self.scripts.call_all(hook, call | said)
            script_tools.log_effects("*", hook, given.session_id, outcome.answer)

    async def _compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        if self._settings is None:
            return
        prompt = ""
        if self.scripts.answers("compacting"):
            history = await self._history(given.session_id)
            fields = {"session": {"id": given.session_id}, "history": protocol.once(history)}
            outcome = await self._run("compacting", given.session_id, None, fields)
            prompt = protocol.text(outcome.answer, "prompt")
        if prompt:
            output.prompt = prompt
        elif output.prompt is None:
            output.prompt = self.scripts.prompts.text("compaction") or None

    async def _event(self, event: Any) -> None:
        if event.type == "session.idle":
            await self.evolution.unwatch(event.session_id)
        if event.type == "session.deleted":
            self.recovery.forget(event.session_id)
            self._frozen.pop(event.session_id, None)
            await self._input.kv.set(f"system:{event.session_id}", None)

    # -- calling -------------------------------------------------------------------------------------

    def _listens(self, hook: str) -> bool:
        return self._settings is not None and bool(self.scripts.answers(hook))

    async def _run(self, hook: str, session_id: str, agent: str | None, fields: wire.Plain) -> Outcome:
        """Call a hook on every script, and recover from each failure."""
        outcome = await self.scripts.call_all(hook, fields)
        queued = [await self.recovery.failed(session_id, agent, failure) for failure in outcome.failures]
        if not outcome.failures:
            self.recovery.succeeded(session_id, hook)
        elif hook == "idle" and not any(queued):
            # No step follows that the emergency prompt could be for.
            self.recovery.take_system(session_id)
        script_tools.log_effects("*", hook, session_id, outcome.answer)
        return outcome

    async def _history(self, session_id: str) -> list[wire.Plain]:
        try:
            messages = await self._input.client.session.messages(session_id)
        except NotFound:
            return []
        return [_said(found) for found in messages if not _is_begun(found.info)]


def _is_begun(info: message.Message) -> bool:
    """Whether a message is the answer that this very step is about to write."""
    return isinstance(info, message.Assistant) and info.time.completed is None


def _said(found: message.WithParts) -> wire.Plain:
    parts = [message.part_to_plain(part) for part in found.parts]
    return {"role": _role(found.info), "agent": found.info.agent, "parts": parts}


def _role(info: message.Message) -> str:
    return "user" if isinstance(info, message.User) else "assistant"


def _answer(parts: list[message.Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, message.TextPart) and not part.ignored)


def _version(workspace: Workspace) -> object:
    try:
        return signature(workspace.config)
    except OSError:
        return None
