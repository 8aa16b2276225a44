// The SDK starts the server itself: node sdk_server.mjs INSTALLED CONFIG. The program is the `opencode` on PATH.
const [installed, config] = process.argv.slice(2);
const found = {};
for (const [name, file] of [["root", "index.js"], ["v2", "v2/index.js"]]) {
  const { createOpencode } = await import(`${installed}/node_modules/@opencode-ai/sdk/dist/${file}`);
  const { client, server } = await createOpencode({ port: 0, config: JSON.parse(config), timeout: 20_000 });
  try {
    const session = (await client.session.create()).data;
    const parts = [{ type: "text", text: "hello" }];
    const prompt = name === "v2" ? { sessionID: session.id, parts } : { path: { id: session.id }, body: { parts } };
    const settings = (await client.config.get()).data;
    const answer = (await client.session.prompt(prompt)).data;
    found[name] = { url: server.url, settings, answer };
  } finally {
    server.close();
  }
}
process.stdout.write(JSON.stringify(found));
