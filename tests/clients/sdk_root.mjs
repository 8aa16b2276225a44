// A scenario through @opencode-ai/sdk: node sdk_root.mjs INSTALLED URL PASSWORD FOLDER
import { Recorder } from "./recorder.mjs";

const [installed, baseUrl, password, folder] = process.argv.slice(2);
const { createOpencodeClient } = await import(`${installed}/node_modules/@opencode-ai/sdk/dist/index.js`);
const headers = { authorization: "Basic " + btoa(`opencode:${password}`) };
const client = createOpencodeClient({ baseUrl, directory: `${folder}/project`, headers });
const recorder = new Recorder(client);
const ask = (...words) => recorder.ask(...words);
const text = (words, more = {}) => ({ parts: [{ type: "text", text: words }], ...more });

// What there is.
await recorder.listen(await client.event.subscribe({ sseMaxRetryAttempts: 1 }));
await ask("app.agents");
await ask("app.log", { body: { service: "test", level: "info", message: "hello" } });
await ask("config.get");
await ask("config.providers");
await ask("command.list");
await ask("provider.list");
await ask("provider.auth");
await ask("provider.oauth.authorize", { path: { id: "fake" }, body: { method: 0 } });
await ask("provider.oauth.callback", { path: { id: "fake" }, body: { method: 0, code: "x" } });
await ask("project.list");
await ask("project.current");
await ask("path.get");
await ask("vcs.get");
await ask("tool.ids");
await ask("tool.list", { query: { provider: "fake", model: "m" } });
await ask("file.list", { query: { path: "" } });
await ask("file.read", { query: { path: "notes.txt" } });
await ask("file.status");
await ask("find.text", { query: { pattern: "milk" } });
await ask("find.files", { query: { query: "notes" } });
await ask("find.symbols", { query: { query: "main" } });
await ask("mcp.status");
await ask("mcp.disconnect", { path: { name: "toy" } });
await ask("mcp.connect", { path: { name: "toy" } });
await ask("mcp.add", { body: { name: "again", config: { type: "local", command: ["true"], enabled: false } } });
await ask("mcp.auth.start", { path: { name: "toy" } });
await ask("mcp.auth.authenticate", { path: { name: "toy" } });
await ask("mcp.auth.callback", { path: { name: "toy" }, body: { code: "x" } });
await ask("mcp.auth.remove", { path: { name: "toy" } });
await ask("mcp.auth.set", { path: { id: "anthropic" }, body: { type: "api", key: "k" } });

// A session.
const session = await ask("session.create", { body: { title: "Root" } });
const path = { id: session.id };
await ask("session.create", { body: { parentID: session.id } }, "child");
const answer = await ask("session.prompt", { path, body: text("Look at the notes.") });
const messageID = answer.info.parentID;
await ask("session.prompt", { path, body: text("Keep this.", { noReply: true }) }, "noReply");
const model = { providerID: "fake", modelID: "n" };
const named = text("And this.", { agent: "poet", model, noReply: true });
const other = await ask("session.prompt", { path, body: named }, "agent and model");

const body = text("List them.");
const asked = await recorder.start("session.promptAsync", { path, body }, "", "permission.asked", session.id);
await ask("session.status");
const permission = { id: session.id, permissionID: asked.properties.id };
await ask("postSessionIdPermissionsPermissionId", { path: permission, body: { response: "always" } });
await recorder.until("session.idle", session.id, asked);

await ask("session.command", { path, body: { command: "greet", arguments: "Ada" } });
await ask("session.shell", { path, body: { agent: "build", command: "echo shell" } });
await ask("session.messages", { path });
await ask("session.message", { path: { ...path, messageID } });
await ask("session.get", { path });
await ask("session.children", { path });
await ask("session.todo", { path });
await ask("session.diff", { path });
await ask("session.update", { path, body: { title: "Renamed" } });
const fork = await ask("session.fork", { path, body: { messageID: other.info.id } });
await ask("session.summarize", { path: { id: fork.id }, body: { providerID: "fake", modelID: "m" } });
await ask("session.init", { path: { id: fork.id }, body: { ...model, messageID: "msg_000000000002aaaaaaaaaaaaaa" } });
await ask("session.revert", { path, body: { messageID } });
await ask("session.unrevert", { path });
await ask("session.abort", { path });
await ask("session.list");
await ask("session.share", { path });
await ask("session.unshare", { path });
await ask("session.delete", { path });
await ask("session.get", { path }, "deleted");

// A terminal that nobody watches.
await ask("tui.appendPrompt", { body: { text: "hello" } });
for (const method of ["openHelp", "openSessions", "openThemes", "openModels", "submitPrompt", "clearPrompt"])
  await ask(`tui.${method}`);
await ask("tui.executeCommand", { body: { command: "session_list" } });
await ask("tui.showToast", { body: { message: "hello", variant: "info" } });
await ask("tui.publish", { body: { type: "tui.prompt.append", properties: { text: "x" } } });
await ask("tui.control.response", { body: { a: 1 } });
await recorder.catchUp((await ask("session.create", {}, "last")).id);
await ask("config.update", { body: {} });
recorder.finish([
  "session", "app", "config", "command", "provider", "project", "path", "vcs", "file", "find", "tool", "mcp", "tui",
  "event",
]);
