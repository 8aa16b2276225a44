"""One good request for every operation of opencode's document and of instar's own, in an order in which they work.

``$name`` in a path, query or body is what an earlier step kept under that name, or what `test_conformance` begins with:
``$project`` (a folder), ``$root`` (the one above it), ``$talk`` (a session with a turn), ``$waiting`` and ``$asked``
(sessions whose turns wait for a permission, ``$permission``, and for a question, ``$question``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

LATER = "msg_ffffffffffffffffffffffffff"
MODEL = {"providerID": "scripted", "modelID": "test"}
HI = [{"type": "text", "text": "hi"}]
NOTHING: Mapping[str, str] = MappingProxyType({})


class Step(NamedTuple):
    """A request. `keep` names where the answer's part at `of` (names with points between) is kept.

    `status` is None where the document's success is due. `waits`: the answer has no end, its first frame is looked at.
    """

    id: str
    path: Mapping[str, str] = NOTHING
    body: Any = None
    query: Mapping[str, str] = NOTHING
    keep: str = ""
    of: str = "id"
    status: int | None = None
    headers: Mapping[str, str] = NOTHING


def step(id: str, **given: Any) -> Step:  # noqa: A002 - the protocol's name
    """A step; what is given with an upper-case ID (``sessionID``) is a part of the path, ``rest`` the rest of one."""
    path = {
        name: given.pop(name)
        for name in [*given]
        if name.endswith("ID") or name in ("name_", "id_", "rest", "ref")
    }
    return Step(id, {name.rstrip("_"): text for name, text in path.items()}, **given)


TALK = {"sessionID": "$talk"}
NEWER = {"sessionID": "$newer"}

LOOKING = [
    step("global.health"),
    step("global.doc"),
    step("global.config.get"),
    step("global.event"),
    step("event.subscribe"),
    step("v2.event.subscribe"),
    step("instar.event"),
    step("config.get"),
    step("config.providers"),
    step("experimental.capabilities.get"),
    step("experimental.console.get"),
    step("experimental.console.listOrgs"),
    step("tool.list", query={"provider": "scripted", "model": "test"}),
    step("tool.ids"),
    step("worktree.list"),
    step("experimental.session.list"),
    step("experimental.resource.list"),
    step("find.text", query={"pattern": "return"}),
    step("find.files", query={"query": "one", "limit": "5", "dirs": "true"}),
    step("find.symbols", query={"query": "one"}),
    step("file.list", query={"path": "."}),
    step("file.read", query={"path": "src/one.py"}),
    step("file.status"),
    step("path.get"),
    step("vcs.get"),
    step("vcs.status"),
    step("vcs.diff", query={"mode": "git", "context": "2"}),
    step("vcs.diff.raw"),
    step("command.list"),
    step("app.agents"),
    step("app.skills"),
    step("lsp.status"),
    step("formatter.status"),
    step("mcp.status"),
    step("project.list"),
    step("project.current", keep="here"),
    step("project.directories", projectID="$here"),
    step("pty.shells"),
    step("pty.list"),
    step("question.list"),
    step("permission.list"),
    step("provider.list"),
    step("provider.auth"),
    step("session.list", query={"limit": "10", "roots": "true"}),
    step("session.status"),
    step("session.get", **TALK),
    step("session.children", **TALK),
    step("session.todo", **TALK),
    step("session.messages", query={"limit": "1"}, keep="message", of="0.info.id", **TALK),
    step("session.messages", keep="first", of="0.info.id", **TALK),
    step("session.messages", keep="part", of="0.parts.0.id", **TALK),
    step("session.message", messageID="$message", **TALK),
    step("session.diff", query={"messageID": "$message"}, **TALK),
    step("experimental.workspace.adapter.list"),
    step("experimental.workspace.list"),
    step("experimental.workspace.status"),
    step("v2.health.get"),
    step("v2.location.get"),
    step("v2.agent.list"),
    step("v2.session.list", query={"limit": "5", "order": "desc"}),
    step("v2.session.active"),
    step("v2.session.get", **TALK),
    step("v2.session.context", **TALK),
    step("v2.session.history", query={"limit": "10"}, **TALK),
    step("v2.session.events", query={"after": "0"}, **TALK),
    step("v2.session.messages", keep="newer_message", of="data.0.id", **TALK),
    step("v2.session.message", messageID="$newer_message", **TALK),
    step("v2.model.list"),
    step("v2.provider.list"),
    step("v2.provider.get", providerID="scripted"),
    step("v2.integration.list"),
    step("v2.integration.get", integrationID="anthropic"),
    step("v2.permission.request.list"),
    step("v2.permission.saved.list"),
    step("v2.session.permission.list", sessionID="$waiting"),
    step("v2.session.permission.get", sessionID="$waiting", requestID="$permission"),
    step("v2.question.request.list"),
    step("v2.session.question.list", sessionID="$asked"),
    step("v2.fs.read", rest="src/one.py"),
    step("v2.fs.list", query={"path": "src"}),
    step("v2.fs.find", query={"query": "one", "type": "file", "limit": "3"}),
    step("v2.command.list"),
    step("v2.skill.list"),
    step("v2.pty.list"),
    step("v2.reference.list"),
    step("instar.stats"),
    step("instar.limits"),
    step("instar.stop.list"),
    step("instar.metrics"),
    step("instar.evolve.status"),
    step("instar.evolve.log"),
    step("instar.evolve.pins"),
    step("instar.evolve.candidates"),
    step("instar.heartbeat.status"),
    step("instar.hooks.rules"),
    step("instar.hooks.stats"),
    step("instar.hooks.record", **TALK),
    step("instar.self.tree"),
    step("instar.self.sessions"),
    step("instar.self.session", **TALK),
    step("instar.self.changes", **TALK),
]
"""What changes nothing."""

DOING = [
    step("permission.reply", requestID="$permission", body={"reply": "once"}),
    step("question.reply", requestID="$question", body={"answers": [["a"]]}),
    step("question.reject", requestID="que_00000000000000000000000000", status=404),
    step(
        "permission.respond",
        sessionID="$talk",
        permissionID="per_0000",
        body={"response": "once"},
        status=404,
    ),
    step("session.create", body={"title": "made", "permission": []}, keep="made"),
    step("session.update", sessionID="$made", body={"title": "named", "metadata": {"a": 1}}),
    step("session.prompt", sessionID="$made", body={"parts": HI, "model": MODEL}, keep="said", of="info.id"),
    step("session.prompt_async", sessionID="$made", body={"parts": HI, "noReply": True}),
    step("session.command", sessionID="$made", body={"command": "greet", "arguments": "you"}),
    step("session.shell", sessionID="$made", body={"agent": "build", "command": "echo hi"}),
    step(
        "session.init",
        sessionID="$made",
        body={"modelID": "test", "providerID": "scripted", "messageID": LATER},
    ),
    step("session.summarize", sessionID="$made", body={"modelID": "test", "providerID": "scripted"}),
    step("session.abort", sessionID="$made"),
    step("session.fork", body={"messageID": "$message"}, keep="forked", **TALK),
    step("session.share", status=400, **TALK),
    step("session.unshare", **TALK),
    step("session.revert", body={"messageID": "$first"}, **TALK),
    step("session.unrevert", **TALK),
    step(
        "part.update",
        messageID="$first",
        partID="$part",
        body={"id": "$part", "sessionID": "$talk", "messageID": "$first", "type": "text", "text": "changed"},
        **TALK,
    ),
    step("part.delete", messageID="$first", partID="$part", **TALK),
    step("session.deleteMessage", messageID="$message", **TALK),
    step("experimental.session.background", **TALK),
    step("session.delete", sessionID="$forked"),
    step("auth.set", providerID="anthropic", body={"type": "api", "key": "sk-a"}),
    step("auth.remove", providerID="anthropic"),
    step("app.log", body={"service": "s", "level": "info", "message": "m", "extra": {"a": 1}}),
    step("provider.oauth.authorize", providerID="anthropic", body={"method": 0}, status=400),
    step("provider.oauth.callback", providerID="anthropic", body={"method": 0}, status=400),
    step(
        "mcp.add", body={"name": "off", "config": {"type": "local", "command": ["false"], "enabled": False}}
    ),
    step("mcp.disconnect", name_="toy"),
    step("mcp.connect", name_="toy"),
    step("mcp.auth.start", name_="toy", status=400),
    step("mcp.auth.authenticate", name_="toy", status=400),
    step("mcp.auth.callback", name_="toy", body={"code": "c"}, status=400),
    step("mcp.auth.remove", name_="toy"),
    step("vcs.apply", body={"patch": "$patch"}),
    step("project.initGit"),
    step("project.update", projectID="$here", body={"name": "named", "commands": {"start": ""}}),
    step("experimental.projectCopy.generateName", projectID="$here", body={"context": "fix a bug"}),
    step(
        "v2.projectCopy.create",
        projectID="$here",
        body={"strategy": "git_worktree", "directory": "$root", "name": "copy"},
        keep="copy",
        of="directory",
    ),
    step("v2.projectCopy.refresh", projectID="$here"),
    step("v2.projectCopy.remove", projectID="$here", body={"directory": "$copy", "force": True}),
    step("worktree.create", body={"name": "apart"}, keep="apart", of="directory"),
    step("worktree.reset", body={"directory": "$apart"}),
    step("worktree.remove", body={"directory": "$apart"}),
    step("experimental.workspace.create", body={"type": "worktree", "branch": None}, keep="workspace"),
    step("experimental.workspace.syncList"),
    step("experimental.workspace.warp", body={"id": "$workspace", "sessionID": "$made"}),
    step("experimental.workspace.warp", body={"id": None, "sessionID": "$made"}),
    step("experimental.workspace.remove", id_="$workspace"),
    step(
        "experimental.controlPlane.moveSession",
        body={"sessionID": "$made", "destination": {"directory": "$project/src"}},
    ),
    step("sync.start"),
    step("sync.history.list", body={}),
    step("sync.replay", body={"directory": "$project", "events": []}, status=400),
    step("sync.steal", body={"sessionID": "$made"}, status=400),
    step("experimental.console.switchOrg", body={"accountID": "a", "orgID": "o"}),
    step("global.upgrade", body={"target": "1.0.0"}),
    step("pty.create", body={"command": "/bin/sh", "title": "t"}, keep="pty"),
    step("pty.get", ptyID="$pty"),
    step("pty.update", ptyID="$pty", body={"title": "u", "size": {"rows": 20, "cols": 70}}),
    step("pty.connectToken", ptyID="$pty", headers={"x-opencode-ticket": "1"}),
    step("pty.connect", ptyID="pty_00000000000000000000000000", status=404),
    step("pty.remove", ptyID="$pty"),
    step("v2.pty.create", body={"command": "/bin/sh"}, keep="newer_pty", of="data.id"),
    step("v2.pty.get", ptyID="$newer_pty"),
    step("v2.pty.update", ptyID="$newer_pty", body={"title": "u"}),
    step("v2.pty.connectToken", ptyID="$newer_pty", headers={"x-opencode-ticket": "1"}),
    step("v2.pty.connect", ptyID="pty_00000000000000000000000000", status=404),
    step("v2.pty.remove", ptyID="$newer_pty"),
    step("tui.appendPrompt", body={"text": "t"}),
    step("tui.openHelp"),
    step("tui.openSessions"),
    step("tui.openThemes"),
    step("tui.openModels"),
    step("tui.submitPrompt"),
    step("tui.clearPrompt"),
    step("tui.executeCommand", body={"command": "session_list"}),
    step("tui.showToast", body={"message": "m", "variant": "info"}),
    step("tui.publish", body={"type": "tui.prompt.append", "properties": {"text": "t"}}),
    step("tui.selectSession", body={"sessionID": "$made"}),
    step("tui.control.response", body={}),
    step(
        "v2.session.create",
        body={"agent": "build", "location": {"directory": "$project"}},
        keep="newer",
        of="data.id",
    ),
    step("v2.session.switchAgent", body={"agent": "plan"}, **NEWER),
    step("v2.session.switchModel", body={"model": {"id": "test", "providerID": "scripted"}}, **NEWER),
    step("v2.session.prompt", body={"prompt": {"text": "hi"}}, keep="prompted", of="data.id", **NEWER),
    step("v2.session.wait", **NEWER),
    step("v2.session.compact", **NEWER),
    step("v2.session.interrupt", **NEWER),
    step("v2.session.revert.stage", body={"messageID": "$prompted"}, **NEWER),
    step("v2.session.revert.clear", **NEWER),
    step("v2.session.revert.stage", body={"messageID": "$prompted", "files": False}, **NEWER),
    step("v2.session.revert.commit", **NEWER),
    step(
        "v2.session.permission.create",
        body={"action": "bash", "resources": ["ls"]},
        keep="wanted",
        of="data.id",
        **NEWER,
    ),
    step("v2.session.permission.reply", requestID="$wanted", body={"reply": "once"}, **NEWER),
    step("v2.session.question.reply", requestID="que_0000", body={"answers": []}, status=404, **NEWER),
    step("v2.session.question.reject", requestID="que_0000", status=404, **NEWER),
    step("v2.permission.saved.remove", id_="psv_0"),
    step("v2.integration.connect.key", integrationID="anthropic", body={"key": "sk-b", "label": "l"}),
    step(
        "v2.integration.connect.oauth",
        integrationID="anthropic",
        body={"methodID": "x", "inputs": {}},
        status=400,
    ),
    step("v2.integration.attempt.status", attemptID="x", status=400),
    step("v2.integration.attempt.complete", attemptID="x", body={}, status=400),
    step("v2.integration.attempt.cancel", attemptID="x"),
    step("v2.credential.update", credentialID="anthropic", body={"label": "m"}),
    step("v2.credential.remove", credentialID="anthropic"),
    step("instar.stop.all"),
    step("instar.stop.resume"),
    step("instar.evolve.show", ref="HEAD"),
    step("instar.evolve.rollback", body={}, status=404),
    step("instar.evolve.pin", body={"file": "a"}),
    step("instar.evolve.unpin", query={"file": "a"}),
    step("instar.evolve.candidate", candidateID="x", status=404),
    step("instar.evolve.approve", candidateID="x", status=404),
    step("instar.evolve.reject", candidateID="x", status=404),
    step("instar.heartbeat.now"),
    step("instar.heartbeat.pause"),
    step("instar.heartbeat.resume"),
    step("config.update", body={"username": "me"}),
    step("global.config.update", body={"username": "me"}),
    step("instance.dispose"),
    step("global.dispose"),
]
"""What changes something; the last ones end the instance."""
