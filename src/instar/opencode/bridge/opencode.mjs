// opencode's half of the bridge: it starts `instar bridge` and puts opencode's hooks, tools and events to it
// (docs/reference/plugin-protocol.md). The file that `instar opencode install` writes imports this one.

import { spawn } from "node:child_process"
import { Peer, said } from "../../jshost/host/peer.mjs"

const GATES = ["chat.message", "command.execute.before", "tool.execute.before"]
const MESSAGES = "experimental.chat.messages.transform"
const DEATHS = 3
const WHILE = 60_000
// Milliseconds after which a bridge that still works on something is looked at, that it has to answer then, and that
// opencode has to say its version.
const PATIENT = { look: 30_000, ping: 2_000, version: 3_000 }
const HELD = 8

// Return opencode's hooks for the plugins that instar's settings name; none in instar itself, which needs no bridge.
export async function serve(input, command, patient = {}) {
  if (/jshost[\\/]host[\\/]host\.mjs$/.test(process.argv[1] ?? "")) return {}
  const bridge = new Bridge(input, command, { ...PATIENT, ...patient })
  try {
    const { plugins } = await bridge.open()
    if (plugins.length) return hooks(bridge, plugins[0])
    bridge.close()
    return {}
  } catch (error) {
    bridge.close()
    bridge.log("error", `instar's plugins did not load, so no tool is run: ${said(error)}`)
    return refusing(said(error))
  }
}

// A plugin that is skipped guards nothing: what one of them might have refused is refused.
function refusing(reason) {
  const refuse = async () => {
    throw new Error(`instar's plugins did not load (${reason}), so this is refused; mend that, or: instar opencode uninstall`)
  }
  return { "tool.execute.before": refuse }
}

function hooks(bridge, offered) {
  const made = {}
  for (const name of offered.hooks) {
    if (OWN[name]) made[name] = OWN[name](bridge, offered)
    else made[name] = (given, output) => put(bridge, offered, name, given, output)
  }
  made.tool = Object.fromEntries(Object.entries(offered.tools).map(([name, tool]) => [name, tooled(bridge, offered, name, tool)]))
  const asked = made["tool.definition"]
  made["tool.definition"] = async (given, output) => {
    const own = bridge.tools[given.toolID]
    // opencode makes a schema of the properties in which each is required; this is the tool's own.
    if (own) output.jsonSchema = own.parameters
    // What opencode keeps of a tool is as it was when it started. Another plugin's words stay.
    if (own && output.description === offered.tools[given.toolID]?.description) output.description = own.description
    await asked?.(given, output)
  }
  return made
}

const OWN = {
  [MESSAGES]: (bridge, offered) => async (_, output) => {
    const found = await guarded(bridge, MESSAGES, () => bridge.messages(offered.key, output.messages))
    if (found?.stop !== undefined) throw new Error(found.stop)
    if (!found) return
    const before = [...output.messages]
    output.messages.splice(0, Infinity, ...found.messages.map((one) => (typeof one === "number" ? before[one] : one)))
  },
  config: (bridge, offered) => async (config) => {
    const { plugin_origins: origins, ...rest } = config
    const found = await guarded(bridge, "config", () => bridge.request("config", { plugin: offered.key, config: rest }))
    if (found) replace(config, { ...found.config, ...(origins && { plugin_origins: origins }) })
  },
  event: (bridge, offered) => async ({ event }) => bridge.tell("event", { plugin: offered.key, event }),
  dispose: (bridge, offered) => async () => {
    await guarded(bridge, "dispose", () => bridge.up() && bridge.request("dispose", { plugin: offered.key }))
    bridge.close()
  },
  "tool.definition": (bridge, offered) => async (given, output) => {
    const shown = { description: output.description, parameters: output.jsonSchema ?? {} }
    await put(bridge, offered, "tool.definition", given, shown)
    output.description = shown.description
    output.jsonSchema = shown.parameters
  },
}

async function put(bridge, offered, hook, input, output) {
  const ask = () => bridge.request("hook", { plugin: offered.key, hook, input, output })
  const found = await (GATES.includes(hook) ? ask() : guarded(bridge, hook, ask))
  for (const name of found?.removed ?? []) delete output[name]
  for (const [name, value] of Object.entries(found?.changed ?? {})) {
    // In place: opencode goes on with the array or object that it had made.
    if (output[name] && typeof output[name] === "object" && typeof value === "object") replace(output[name], value)
    else output[name] = value
  }
}

function replace(target, value) {
  if (Array.isArray(target)) return target.splice(0, Infinity, ...value)
  for (const name of Object.keys(target)) if (!(name in value)) delete target[name]
  Object.assign(target, value)
}

// An observer that fails changes nothing, and a turn goes on without it.
async function guarded(bridge, hook, ask) {
  try {
    return await ask()
  } catch (error) {
    bridge.log("error", `instar's bridge failed at ${hook}: ${said(error)}`)
  }
}

function tooled(bridge, offered, name, tool) {
  return {
    description: tool.description,
    args: tool.parameters.properties ?? {},
    execute: (args, context) => bridge.tool({ plugin: offered.key, tool: name, args }, context),
  }
}

class Bridge {
  constructor(input, command, patient) {
    this.input = input
    this.patient = patient
    this.command = command
    this.calls = new Map()
    this.last = 0
    this.deaths = []
    this.texts = new Map()
    this.tools = {}
  }

  up() {
    return this.child !== undefined && !this.gone
  }

  // Start the bridge and load the plugins. Of what it offers opencode keeps all but how tools are described.
  async open() {
    this.gone = ""
    this.texts.clear()
    const [program, ...args] = this.command
    const child = (this.child = spawn(program, args, { cwd: this.input.directory, stdio: ["pipe", "pipe", "pipe"] }))
    const peer = (this.peer = new Peer(
      { on: (event, take) => child.stdout.on(event, take), write: (frame) => child.stdin.write(frame) },
      {
        http: (asked) => this.http(asked),
        tools: ({ tools }) => void (this.tools = tools),
        ask: ({ call, ...asked }) => this.ask(call, asked),
        metadata: ({ call, title, metadata }) => this.calls.get(call)?.context.metadata({ title, metadata }),
      },
    ))
    const end = (reason) => this.ended(child, peer, reason)
    child.on("error", (error) => end(`${program} cannot be started: ${error.message}`))
    child.on("exit", (code, signal) => end(signal ? `it was ended by ${signal}` : `it ended with code ${code}`))
    child.stdin.on("error", () => {})
    child.stderr.on("data", (chunk) => this.log("info", String(chunk).trim()))
    const { directory, worktree, project, serverUrl } = this.input
    const version = await this.version()
    const greeting = { directory, worktree, project, url: String(serverUrl ?? ""), version }
    await peer.request("initialize", greeting)
    const found = await peer.request("load", { key: "instar" })
    this.tools = found.plugins[0]?.tools ?? {}
    return found
  }

  ended(child, peer, reason) {
    if (child !== this.child || this.gone) return
    this.gone = reason
    const error = new Error(`instar's bridge is gone: ${reason}`)
    peer.close(error)
    if (!this.closed) this.log("error", error.message)
  }

  close() {
    this.closed = true
    this.child?.stdin.end()
  }

  // The peer; a bridge that has ended is started again, unless it ended too often.
  async ready() {
    if (this.up()) return this.peer
    this.starting ??= this.again().finally(() => (this.starting = undefined))
    await this.starting
    return this.peer
  }

  async again() {
    if (this.closed) throw new Error("instar's bridge is closed")
    const now = Date.now()
    this.deaths = this.deaths.filter((then) => now - then < WHILE)
    if (this.deaths.length >= DEATHS) throw new Error(`instar's bridge was started again ${DEATHS} times within a minute and is left alone for a while (${this.gone})`)
    this.deaths.push(now)
    this.log("warn", "instar's bridge is started again")
    await this.open()
  }

  // `make` gives the parameters once there is a bridge to send them to.
  async request(method, make, signal) {
    const peer = await this.ready()
    const look = setInterval(() => this.look(peer), this.patient.look)
    try {
      return await peer.request(method, typeof make === "function" ? make() : make, signal)
    } finally {
      clearInterval(look)
    }
  }

  // End a bridge that answers nothing any more: whoever waits for it would wait for ever.
  look(peer) {
    const child = this.child
    let answered = false
    const heard = () => (answered = true)
    // What came while this process itself stood still is read after its timers: an answer may be among it.
    const judge = () => setImmediate(() => answered || child.kill("SIGKILL"))
    const timer = setTimeout(judge, this.patient.ping)
    peer.request("ping", {}).then(heard, heard).finally(() => clearTimeout(timer))
  }

  tell(method, params) {
    if (this.up()) this.peer.notify(method, params)
  }

  // The messages of a session are sent once; after that, what has changed of them. A new bridge knows of none.
  messages(plugin, messages) {
    return this.request("messages", () => ({ plugin, hook: MESSAGES, ...this.patch(messages) }))
  }

  patch(messages) {
    const session = messages[0]?.info.sessionID ?? ""
    const texts = this.texts.get(session) ?? []
    const now = messages.map((one) => JSON.stringify(one))
    const set = []
    for (const [index, text] of now.entries()) if (texts[index] !== text) set.push([index, messages[index]])
    this.texts.delete(session)
    this.texts.set(session, now)
    const forget = [...this.texts.keys()].slice(0, Math.max(0, this.texts.size - HELD))
    for (const one of forget) this.texts.delete(one)
    return { session, length: messages.length, set, forget }
  }

  async tool(called, context) {
    const call = ++this.last
    const running = { context }
    this.calls.set(call, running)
    const { sessionID, messageID, callID, agent, directory, worktree } = context
    const told = { sessionID, messageID, callID, agent, directory, worktree }
    try {
      return await this.request("tool", { ...called, call, context: told }, context.abort)
    } catch (error) {
      // opencode knows its own refusal by its class: it ends the turn.
      throw running.denied ?? error
    } finally {
      this.calls.delete(call)
    }
  }

  async ask(call, asked) {
    const running = this.calls.get(call)
    if (!running) throw new Error("the call is over")
    try {
      await running.context.ask(asked)
    } catch (error) {
      running.denied = error
      throw error
    }
  }

  // A request of opencode's own SDK, in this process: there may be no server.
  async http({ method, path, headers, body }) {
    const { fetch, baseUrl, headers: own } = this.input.client._client.getConfig()
    const kept = new Headers(own)
    for (const [name, value] of Object.entries(headers ?? {})) kept.set(name, value)
    const answer = await fetch(new Request(new URL(path, baseUrl), { method, headers: kept, body }))
    const type = answer.headers.get("content-type") ?? ""
    if (type.includes("event-stream")) {
      await answer.body?.cancel()
      throw new Error("the bridge opens no stream of events: plugins hear them by their `event` hook")
    }
    return { status: answer.status, type, body: await answer.text() }
  }

  // opencode's version; it is not told to plugins, and its server may not answer before they are loaded.
  async version() {
    const late = new Promise((resolve) => setTimeout(resolve, this.patient.version).unref?.())
    const asked = this.http({ method: "GET", path: "/global/health" }).then((answer) => JSON.parse(answer.body).version)
    return (await Promise.race([asked.catch(() => ""), late])) ?? ""
  }

  log(level, message) {
    // Not awaited: opencode may not be ready to answer requests yet.
    this.input.client?.app?.log?.({ body: { service: "instar", level, message } })?.catch?.(() => {})
  }
}
