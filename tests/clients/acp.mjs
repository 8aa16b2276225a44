// An editor's session through @agentclientprotocol/sdk: node acp.mjs INSTALLED FOLDER COMMAND..., or a URL and an
// Authorization header in place of the command.
// Prints each message that goes over the wire as a line of JSON: {"to": "agent" or "client", "message": …}.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [installed, folder, program, ...words] = process.argv.slice(2);
const acp = await import(`${installed}/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js`);
const { methods } = acp;
const remote = program.startsWith("http");
let agent;

const tapped = (to) =>
  new TransformStream({
    transform(message, controller) {
      console.log(JSON.stringify({ to, message }));
      controller.enqueue(message);
    },
  });
let wire;
if (remote) {
  const { createHttpStream } = await import(`${installed}/node_modules/@agentclientprotocol/sdk/dist/transports/http-stream.js`);
  wire = createHttpStream(program, { headers: { Authorization: words[0] } });
} else {
  agent = spawn(program, words, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  wire = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
}
const sent = tapped("agent");
const ended = sent.readable.pipeTo(wire.writable).catch(() => {});
const stream = { readable: wire.readable.pipeThrough(tapped("client")), writable: sent.writable };

let kind = "allow_once";
let called = () => {};
const client = acp
  .client({ name: "test" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const chosen = params.options.find((option) => option.kind === kind);
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onRequest(methods.client.fs.readTextFile, () => ({ content: "as the editor holds it\n" }))
  .onNotification(methods.client.session.update, ({ params }) => {
    if (params.update.sessionUpdate === "tool_call_update" && params.update.status === "in_progress") called();
  });

await client.connectWith(stream, async (ctx) => {
  const ask = (method, params) => ctx.request(method, params);
  const prompt = (sessionId, text) => ask(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  const capabilities = { fs: { readTextFile: true, writeTextFile: false } };
  await ask(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: capabilities });
  const { sessionId } = await ask(methods.agent.session.new, { cwd: folder, mcpServers: [] });
  await prompt(sessionId, "write");
  kind = "reject_once";
  await prompt(sessionId, "write");
  await ask(methods.agent.session.setMode, { sessionId, modeId: "plan" });
  await ask(methods.agent.session.setConfigOption, { sessionId, configId: "mode", value: "build" });
  const begun = new Promise((resolve) => (called = resolve));
  const turn = prompt(sessionId, "sleep");
  await begun;
  ctx.notify(methods.agent.session.cancel, { sessionId });
  await turn;
  await ask(methods.agent.session.list, { cwd: folder });
  await ask(methods.agent.session.load, { sessionId, cwd: folder, mcpServers: [] });
  await ask(methods.agent.session.close, { sessionId });
  await ask(methods.agent.session.resume, { sessionId, cwd: folder, mcpServers: [] });
});
if (remote) {
  await stream.writable.close();
  await ended;
} else {
  agent.stdin.end();
}
