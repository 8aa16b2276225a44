// The JavaScript host: the child in which instar runs plugins that are written for opencode (docs/reference/plugin-protocol.md).

import { AsyncLocalStorage } from "node:async_hooks"
import { Readable } from "node:stream"
import { authorize, awaited, beforehand, makeClient } from "./client.mjs"
import { connected } from "./connection.mjs"
import { Peer, said } from "./peer.mjs"
import { prepare } from "./resolving.mjs"
import { load, toolsOf, wantsBun } from "./loading.mjs"
import { changes, Histories } from "./output.mjs"
import { call, portable } from "./functions.mjs"
import { Login } from "./login.mjs"
import { execute } from "./tools.mjs"
import { $ } from "./shell.mjs"

const current = new AsyncLocalStorage()
const plugins = new Map()
const leaving = new Set()
const hearing = new Set()
const histories = new Histories()
let given

const methods = {
  async initialize(params) {
    given = { ...params, ask: (method, params, signal) => peer.request(method, params, signal) }
    authorize(given)
    process.chdir(given.directory)
    prepare((name) => peer.request("package", { name }))
    return { runtime: globalThis.Bun ? "bun" : "node", version: process.versions.bun ?? process.version, protocol: 1 }
  },

  load: beforehand(async (asked) => {
    const before = lasting()
    try {
      return await loaded(asked)
    } catch (error) {
      if (lasting() > before) leaving.add(asked.key)
      if (!wantsBun(error)) throw error
      return { bun: said(error) }
    }
  }),

  // Whether a module that did not load left timers, programs or servers behind; bun cannot tell.
  left: ({ key }) => Boolean(globalThis.Bun) || leaving.has(key),

  async hook({ plugin, hook, input: given, output }) {
    const handler = plugins.get(plugin).hooks[hook]
    const before = changes(output)
    if (hook === "tool.definition") alias(output, "jsonSchema", "parameters")
    await current.run(plugin, () => handler(given, output))
    if (hook === "tool.definition") delete output.jsonSchema
    return before.found()
  },

  async messages({ plugin, hook, session, length, set, forget }) {
    const history = histories.patched(session, length, set, forget)
    const output = { messages: history.fresh() }
    await current.run(plugin, () => plugins.get(plugin).hooks[hook]({}, output))
    return history.found(output.messages)
  },

  config: beforehand(async ({ plugin, config }) => {
    const before = JSON.stringify(config)
    await current.run(plugin, () => plugins.get(plugin).hooks.config(config))
    return JSON.stringify(config) === before ? null : { config }
  }),

  // Not awaited, as in opencode: a hook that prompts at `session.idle` must not hold the next event up.
  event({ plugin, event }) {
    const hook = plugins.get(plugin)?.hooks.event
    if (!hook) return
    const heard = current
      .run(plugin, async () => hook({ event }))
      .catch((error) => peer.notify("failed", { plugin, hook: "event", event: event.type, message: said(error) }))
      .finally(() => hearing.delete(heard))
    hearing.add(heard)
  },

  // Answered once the listeners are done with what they were told.
  async heard() {
    await Promise.all(hearing)
  },

  tool(params, signal) {
    const owner = plugins.get(params.plugin)
    return current.run(params.plugin, () => execute(peer, owner.hooks.tool[params.tool], params, signal))
  },

  loader: beforehand(({ plugin, provider }) => {
    const owner = plugins.get(plugin)
    return current.run(plugin, () => owner.login.load(provider, peer))
  }),

  fetch({ plugin, ...request }, signal) {
    const { login } = plugins.get(plugin)
    return current.run(plugin, () => login.send(request, signal))
  },

  read: ({ plugin, stream }) => plugins.get(plugin).login.read(stream),

  close: ({ plugin, stream }) => plugins.get(plugin)?.login.close(stream),

  call: beforehand(async ({ function: number, args }) => portable(await call(number, args), peer)),

  async dispose({ plugin }) {
    await current.run(plugin, () => plugins.get(plugin)?.hooks.dispose?.())
  },

  ping: () => "pong",
}

// How much there is that goes on by itself.
function lasting() {
  return process.getActiveResourcesInfo().filter((name) => !/Req|Immediate|TTY/.test(name)).length
}

// Load one module and run its plugin functions; several exports are several plugins. Of a file of tools there is one.
async function loaded({ key, target, file, options: given, timeout, tools }) {
  if (tools) {
    const { tool, half, ...found } = await current.run(key, () => toolsOf(target))
    for (const message of half) peer.notify("failed", { plugin: key, hook: "tool", message })
    return { id: null, plugins: [register(`${key}.0`, { tool }, found)] }
  }
  const options = Object.keys(given).length ? given : undefined
  const found = await current.run(key, () => load(target, file))
  const offered = []
  for (const [index, server] of found.servers.entries()) {
    const hooks = await current.run(key, () => within(server(input(key, found), options), timeout))
    offered.push(register(`${key}.${index}`, hooks, found))
  }
  return { id: found.id, plugins: offered }
}

function register(key, hooks, found) {
  // An exported helper counts as a plugin too, as in opencode, and gives whatever it gives.
  if (hooks === null || typeof hooks !== "object") hooks = {}
  const login = hooks.auth && new Login(hooks.auth, () => peer.request("login", { plugin: key }))
  plugins.set(key, { hooks, login })
  const functions = Object.keys(hooks).filter((name) => typeof hooks[name] === "function")
  return {
    key,
    hooks: functions,
    tools: Object.fromEntries(Object.entries(hooks.tool ?? {}).map(([name, tool]) => [name, found.describe(name, tool)])),
    auth: hooks.auth ? portable(hooks.auth, peer) : null,
    provider: hooks.provider ? portable(hooks.provider, peer) : null,
    timeout: hooks.timeout === undefined ? undefined : hooks.timeout,
    odd: Object.keys(hooks).filter((name) => hooks[name] && !["function", "object", "number"].includes(typeof hooks[name])),
  }
}

function input(key, { url, id }) {
  const client = makeClient(given, url)
  return {
    client,
    project: given.project,
    directory: given.directory,
    worktree: given.worktree,
    experimental_workspace: {
      register(type, adapter) {
        peer.notify("workspace", { plugin: key, id, type, adapter: portable(adapter, peer) })
      },
    },
    get serverUrl() {
      return new URL(given.url ?? "http://localhost:4096")
    },
    $: globalThis.Bun?.$ ?? $.cwd(given.directory),
  }
}

// Wait for a promise, so long: what never settles must not keep the other plugins from loading.
async function within(work, seconds) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not return within ${seconds} s${awaited()}`)), seconds * 1000)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function alias(object, name, other) {
  Object.defineProperty(object, name, {
    enumerable: true,
    configurable: true,
    get: () => object[other],
    set: (value) => {
      object[other] = value
    },
  })
}

// What a plugin does outside of a call must not end the others.
for (const kind of ["uncaughtException", "unhandledRejection"]) {
  process.on(kind, (error) => {
    peer.notify("failed", { plugin: current.getStore() ?? "", hook: kind, message: said(error) })
  })
}
process.exit = process.reallyExit = (code) => {
  throw new Error(`it called process.exit(${code ?? ""}), which would end every plugin: that is not done here`)
}

const kill = process.kill.bind(process)
process.kill = (pid, signal) => {
  // Whether the parent lives may be asked.
  if (Number(pid) !== process.ppid || signal === 0) return kill(pid, signal)
  throw Object.assign(new Error("it called process.kill(process.ppid), which would end instar: that is not done here"), { code: "EPERM" })
}

// A plugin that reads stdin finds nothing.
Object.defineProperty(process, "stdin", { configurable: true, get: () => Readable.from([]) })

const socket = connected(Number(process.argv[2]))
const end = process.kill.bind(process, process.pid, "SIGKILL")
socket.on("close", end)
socket.on("error", end)
const peer = new Peer(socket, methods)
