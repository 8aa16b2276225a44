// A scenario through @opencode-ai/sdk/v2: node sdk_v2.mjs INSTALLED URL PASSWORD FOLDER
import { Recorder } from "./recorder.mjs";

const [installed, baseUrl, password, folder] = process.argv.slice(2);
const { createOpencodeClient } = await import(`${installed}/node_modules/@opencode-ai/sdk/dist/v2/index.js`);
const directory = `${folder}/project`;
const headers = { authorization: "Basic " + btoa(`opencode:${password}`) };
const client = createOpencodeClient({ baseUrl, directory, headers });
const recorder = new Recorder(client);
const ask = (...words) => recorder.ask(...words);
const text = (words) => ({ parts: [{ type: "text", text: words }] });

// What there is.
await recorder.listen(await client.event.subscribe({}, { sseMaxRetryAttempts: 1 }));
await recorder.overhear(await client.global.event({ sseMaxRetryAttempts: 1 }));
await ask("global.health");
await ask("app.agents");
await ask("app.skills");
await ask("app.log", { service: "test", level: "info", message: "hello" });
await ask("config.get");
await ask("config.providers");
await ask("command.list");
await ask("provider.list");
await ask("provider.auth");
await ask("provider.oauth.authorize", { providerID: "fake", method: 0 });
await ask("provider.oauth.callback", { providerID: "fake", method: 0, code: "x" });
await ask("path.get");
await ask("tool.ids");
await ask("tool.list", { provider: "fake", model: "m" });
await ask("project.list");
const project = await ask("project.current");
await ask("project.directories", { projectID: project.id });
await ask("project.initGit");
await ask("project.update", { projectID: project.id, name: "Named", icon: { color: "#112233" } });
await ask("project.update", { projectID: "nonsense", name: "x" }, "unknown");
// The newer rooms that the terminal UI asks when it starts.
for (const room of ["location.get", "agent.list", "command.list", "skill.list", "model.list", "provider.list"])
  await ask(`v2.${room}`);
await ask("v2.integration.list");
await ask("v2.reference.list");
await ask("file.list", { path: "" });
await ask("file.list", { path: "src" }, "below");
await ask("file.read", { path: "notes.txt" });
await ask("file.read", { path: "missing.txt" }, "missing");
await ask("file.status");
await ask("find.text", { pattern: "milk" });
await ask("find.files", { query: "app" });
await ask("find.files", { query: "sr", type: "directory", limit: 1 }, "folders");
await ask("find.symbols", { query: "main" });
await ask("vcs.get");
await ask("vcs.status", {}, "clean");
const patch = "diff --git a/made.txt b/made.txt\nnew file mode 100644\n--- /dev/null\n+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n";
await ask("vcs.apply", { patch });
await ask("vcs.apply", { patch: "nonsense" }, "nonsense");
await ask("vcs.status");
await ask("vcs.diff", { mode: "git" });
await ask("vcs.diff", { mode: "branch" }, "branch");
await ask("vcs.diff2.raw");
await ask("mcp.status");
await ask("mcp.disconnect", { name: "toy" });
await ask("mcp.connect", { name: "toy" });
await ask("mcp.add", { name: "more", config: { type: "local", command: ["true"], enabled: false } });
await ask("mcp.connect", { name: "nonsense" }, "unknown");
await ask("mcp.auth.start", { name: "toy" });
await ask("mcp.auth.authenticate", { name: "toy" });
await ask("mcp.auth.callback", { name: "toy", code: "x" });
await ask("mcp.auth.remove", { name: "toy" });
await ask("mcp.auth.remove", { name: "nonsense" }, "unknown");

// A session: a tool call, a permission, a question, an abort.
const session = await ask("session.create", {});
const sessionID = session.id;
const model = { id: "n", providerID: "fake" };
const rules = [{ permission: "bash", pattern: "*", action: "deny" }];
await ask("session.create", { title: "Full", agent: "poet", model, metadata: { a: 1 }, permission: rules }, "full");
const child = await ask("session.create", { parentID: sessionID, title: "Child" }, "child");
const answer = await ask("session.prompt", { sessionID, ...text("Look at the notes.") });
const first = answer.info.parentID;
const written = await ask("session.prompt", { sessionID, ...text("Write it down.") }, "write");
await ask("session.prompt", { sessionID, noReply: true, ...text("Keep this.") }, "noReply");
await ask("session.prompt", { sessionID, parts: [{ type: "nonsense" }] }, "unknown part");

async function turn(words, type) {
  const prompt = { sessionID, ...text(words) };
  const asked = await recorder.start("session.promptAsync", prompt, words, type, sessionID);
  return [asked.properties.id, () => recorder.until("session.idle", sessionID, asked)];
}

let [requestID, idle] = await turn("Run it.", "permission.asked");
await ask("session.status", {}, "busy");
await ask("permission.list");
await ask("permission.reply", { requestID, reply: "maybe" }, "wrong");
await ask("permission.reply", { requestID, reply: "once" });
await idle();
await ask("permission.reply", { requestID, reply: "once" }, "twice");
[requestID, idle] = await turn("Run it.", "permission.asked");
await ask("permission.respond", { sessionID, permissionID: requestID, response: "reject" });
await idle();
[requestID, idle] = await turn("Ask me.", "question.asked");
await ask("question.list");
await ask("question.reply", { requestID, answers: [["red"]] });
await idle();
[requestID, idle] = await turn("Ask me.", "question.asked");
await ask("question.reject", { requestID });
await idle();
await ask("question.reject", { requestID }, "twice");

const slow = (await ask("session.create", { title: "Slow" }, "slow")).id;
const long = { sessionID: slow, ...text("Take your time.") };
const begun = await recorder.start("session.promptAsync", long, "slow", "message.part.delta", slow);
await ask("session.shell", { sessionID: slow, agent: "build", command: "true" }, "busy");
await ask("session.revert", { sessionID: slow, messageID: first }, "busy");
await ask("session.abort", { sessionID: slow });
await recorder.until("session.idle", slow, begun);
await ask("session.messages", { sessionID: slow }, "aborted");
await ask("session.abort", { sessionID: slow }, "idle");

await ask("session.command", { sessionID, command: "greet", arguments: "Ada" });
await ask("session.shell", { sessionID, agent: "build", command: "echo shell" });
await ask("session.init", { sessionID: slow, providerID: "fake", modelID: "m", messageID: "msg_000000000001aaaaaaaaaaaaaa" });

// Its history.
const messages = await ask("session.messages", { sessionID });
await ask("session.messages", { sessionID, limit: 2 }, "limit");
await ask("session.message", { sessionID, messageID: first });
const part = messages[0].parts[0];
await ask("part.update", { sessionID, messageID: first, partID: part.id, part: { ...part, text: "Changed." } });
await ask("session.get", { sessionID });
await ask("session.children", { sessionID });
await ask("session.todo", { sessionID });
await ask("session.diff", { sessionID, messageID: written.info.parentID });
const fork = await ask("session.fork", { sessionID });
await ask("session.fork", { sessionID, messageID: written.info.parentID }, "message");
await ask("session.revert", { sessionID, messageID: written.info.parentID });
await ask("session.unrevert", { sessionID });
await ask("session.summarize", { sessionID: fork.id, providerID: "fake", modelID: "m" });
const last = (await ask("session.messages", { sessionID: fork.id }, "summarized")).at(-1);
await ask("part.delete", { sessionID: fork.id, messageID: last.info.id, partID: last.parts.at(-1).id });
await ask("session.deleteMessage", { sessionID: fork.id, messageID: last.info.id });
await ask("session.update", { sessionID, title: "New title", metadata: { b: 2 } });
await ask("session.update", { sessionID: child.id, time: { archived: 5 } }, "archive");
await ask("session.list");
await ask("session.list", { roots: true, limit: 1 }, "roots");
await ask("session.list", { search: "New title" }, "search");
await ask("session.status");
await ask("session.share", { sessionID });
await ask("session.unshare", { sessionID });
await ask("session.delete", { sessionID: fork.id });

// What is not there, and what is wrong.
const nobody = { sessionID: "ses_000000000000aaaaaaaaaaaaaa" };
const none = { ...nobody, messageID: "msg_000000000000aaaaaaaaaaaaaa" };
await ask("session.get", { sessionID: fork.id }, "deleted");
for (const method of ["get", "messages", "children", "todo", "delete", "unrevert", "abort", "diff"])
  await ask(`session.${method}`, nobody, "unknown");
await ask("session.prompt", { ...nobody, ...text("x") }, "unknown");
await ask("session.update", { ...nobody, title: "x" }, "unknown");
await ask("session.update", { sessionID, title: 5 }, "wrong");
await ask("session.message", none, "unknown");
await ask("session.message", { ...none, sessionID }, "unknown message");
await ask("permission.reply", { requestID: "per_000000000000aaaaaaaaaaaaaa", reply: "once" }, "unknown");
await ask("question.reply", { requestID: "que_000000000000aaaaaaaaaaaaaa", answers: [] }, "unknown");

// A terminal that nobody watches.
await ask("tui.appendPrompt", { text: "hello" });
for (const method of ["openHelp", "openSessions", "openThemes", "openModels", "submitPrompt", "clearPrompt"])
  await ask(`tui.${method}`);
await ask("tui.executeCommand", { command: "session_list" });
await ask("tui.showToast", { message: "hello", variant: "info" });
await ask("tui.publish", { body: { type: "tui.prompt.append", properties: { text: "x" } } });
await ask("tui.selectSession", { sessionID });
await ask("tui.selectSession", nobody, "unknown");
await ask("tui.control.response", { body: { a: 1 } });

await recorder.catchUp((await ask("session.create", {}, "last")).id);
await ask("config.update", { config: { username: "ada" } });
recorder.finish([
  "session", "part", "app", "config", "command", "provider", "project", "path", "vcs", "file", "find", "tool",
  "permission", "question", "mcp", "tui", "event",
]);
