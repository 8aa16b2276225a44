// Plays opencode for its half of the bridge: calls the hooks that it returns, as lines of JSON on stdin say.

import { createInterface } from "node:readline"

const [half, command, directory] = process.argv.slice(2)
const { serve } = await import(half)
const logs = []
const requests = []
let routes = {}

const fetch = async (request) => {
  const { pathname } = new URL(request.url)
  const text = await request.text()
  requests.push({ method: request.method, path: pathname, body: text && JSON.parse(text) })
  const found = routes[`${request.method} ${pathname}`]
  if (found === undefined) return Response.json({ name: "NotFoundError", data: { message: `no ${pathname}` } }, { status: 404 })
  if (found === "never") return new Promise(() => {})
  if (found === "stream") return new Response("data: {}\n\n", { headers: { "content-type": "text/event-stream" } })
  return found === null ? new Response(null, { status: 204 }) : Response.json(found)
}

const client = {
  _client: { getConfig: () => ({ fetch, baseUrl: "http://localhost:4096", headers: {} }) },
  app: { log: async ({ body }) => void logs.push(body) },
}
const project = { id: "p", worktree: directory }
const input = { client, directory, worktree: directory, project, serverUrl: new URL("http://localhost:4096") }
const asks = []
const aborting = new AbortController()

class Denied extends Error {}

let hooks = {}

const context = (given) => ({
  sessionID: "ses_1",
  messageID: "msg_1",
  callID: "call_1",
  agent: "build",
  directory,
  worktree: directory,
  abort: aborting.signal,
  metadata: (shown) => asks.push({ shown }),
  ask: async (asked) => {
    asks.push(asked)
    if (given.denied) throw new Denied("the person said no")
  },
})

const commands = {
  open: async (given) => {
    routes = given.routes ?? {}
    hooks = await serve(input, given.command ?? JSON.parse(command), given.patient)
    return { hooks: Object.keys(hooks), tools: Object.fromEntries(Object.entries(hooks.tool ?? {}).map(([name, one]) => [name, one.args])) }
  },
  route: (given) => void Object.assign(routes, given.routes),
  async hook({ name, input, output }) {
    // opencode goes on with the very values that it has given.
    const held = { ...output }
    const began = performance.now()
    await hooks[name](input, output)
    return { output, held, ms: performance.now() - began }
  },
  config: async ({ config }) => (await hooks.config(config), config),
  event: ({ event }) => hooks.event({ event }),
  tool: ({ name, args, ...given }) => hooks.tool[name].execute(args, context(given)),
  abort: () => aborting.abort(),
  seen: () => ({ logs, requests, asks }),
  dispose: () => hooks.dispose?.(),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, do: name, ...given } = JSON.parse(line)
  // Not awaited: opencode too calls hooks side by side.
  Promise.resolve()
    .then(() => commands[name](given))
    .then(
      (result) => console.log(JSON.stringify({ id, result: result ?? null })),
      (error) => console.log(JSON.stringify({ id, error: error.message + (error instanceof Denied ? " (its own)" : "") })),
    )
}
process.exit(0)
