// `client`: the official @opencode-ai/sdk, pointed at instar's server.

import { existsSync as exists } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const SDK = "@opencode-ai/sdk"

// Return the client of a plugin whose module is at `url`. The server is started with the first request, and what the
// plugin does not bring itself is installed with it. `given.ask(method, params)` asks instar.
export function makeClient(given, url) {
  const install = (name) => given.ask("package", { name })
  let made
  const client = () => (made ??= create(given, url, install))
  return lazy(client)
}

async function create(given, url, install) {
  const { createOpencodeClient } = await import(await sdk(url, install))
  if (!given.url) {
    // One may have been opened since.
    Object.assign(given, await given.ask("server", {}))
    authorize(given)
  }
  if (!given.url) throw new Error("this host has no server that a client could ask")
  return createOpencodeClient({ baseUrl: given.url, directory: given.directory, fetch: (request) => asked(given, request) })
}

// Their own requests carry the password, whoever makes them.
const plain = globalThis.fetch

function asked(given, request) {
  if (early && isOwn(given, request)) return carried(given, request)
  return sent(given, request)
}

// How many answers instar waits for that it needs before its instance is open.
let early = 0
// The requests that the server has not answered.
const open = new Set()

// Return `work` so that what it asks meanwhile of its own directory is asked of the instance: the server would wait for it.
export function beforehand(work) {
  return async (...args) => {
    early += 1
    try {
      return await work(...args)
    } finally {
      early -= 1
    }
  }
}

// What a plugin waits for that returns too late; "" for nothing that is known.
export function awaited() {
  const [request] = open
  if (!request) return ""
  return `: ${request.method} ${new URL(request.url).pathname} is not answered, and the server of a directory answers once its plugins are loaded`
}

function isOwn(given, request) {
  const named = [new URL(request.url).searchParams.get("directory"), request.headers.get("x-opencode-directory")]
  const own = [given.directory, encodeURIComponent(given.directory)]
  return named.some((one) => own.includes(one)) && !request.headers.get("accept")?.includes("event-stream")
}

async function carried(given, request) {
  const { pathname, search } = new URL(request.url)
  const headers = Object.fromEntries(request.headers)
  const body = await request.text()
  const asked = { method: request.method, path: pathname + search, headers, body }
  const { status, type, body: answer } = await given.ask("http", asked, request.signal)
  return new Response([204, 205, 304].includes(status) ? null : answer, { status, headers: type ? { "content-type": type } : {} })
}

function sent(given, request) {
  if (globalThis.Bun) request.timeout = false
  if (given.authorization && !request.headers.has("authorization")) request.headers.set("authorization", given.authorization)
  open.add(request)
  return plain(request).finally(() => open.delete(request))
}

// Let a plugin's own `fetch` of `serverUrl` through: it knows no password.
export function authorize(given) {
  if (!given.url) return
  const origin = new URL(given.url).origin
  globalThis.fetch = Object.assign((resource, init) => {
    const request = new Request(resource, init)
    return new URL(request.url).origin === origin ? asked(given, request) : plain(resource, init)
  }, plain)
}

async function sdk(url, install) {
  for (const from of [url, null]) {
    const base = from ?? pathToFileURL(join(await install(SDK), "index.js")).href
    const found = located(base)
    if (found) return found
  }
  throw new Error(`${SDK} is not installed`)
}

function located(base) {
  const require = createRequire(base)
  for (const folder of require.resolve.paths(SDK) ?? []) {
    const path = join(folder, SDK, "dist", "index.js")
    if (exists(path)) return pathToFileURL(path).href
  }
  return null
}

// What the SDK's client is made of (1.18.33), in its order: objects whose fields are functions, and one function. Plugins
// look whether something is there before they use it.
const FIELDS =
  "_client global project pty config tool instance path vcs session command provider find file app mcp lsp formatter tui auth event"
const INNER = { mcp: "auth", provider: "oauth", tui: "control" }
const SINGLE = "postSessionIdPermissionsPermissionId"

// An object that becomes the real client when something of it is called: making that one takes time.
function lazy(client) {
  const made = Object.fromEntries(FIELDS.split(" ").map((name) => [name, part(client, [name])]))
  return Object.defineProperty(made, SINGLE, { value: calling(client, [SINGLE]) })
}

function part(client, path) {
  // Its methods are not listed, as those of a class.
  const listed = path.length === 1 && path[0] !== "_client" ? ["_client", INNER[path[0]]].filter(Boolean) : []
  const fields = Object.fromEntries(listed.map((name) => [name, part(client, [...path, name])]))
  const made = new Map()
  const method = (name) => {
    if (name === "then" || name === "toJSON") return undefined
    if (!made.has(name)) made.set(name, calling(client, [...path, name]))
    return made.get(name)
  }
  const get = (target, name) => (typeof name === "symbol" || name in target ? target[name] : method(name))
  return new Proxy(fields, { get, has: (target, name) => get(target, name) !== undefined })
}

function calling(client, path) {
  return async (...args) => {
    let owner
    let found = await client()
    for (const name of path) [owner, found] = [found, found?.[name]]
    if (typeof found !== "function") throw new Error(`client.${path.join(".")} is not a function`)
    return found.apply(owner, args)
  }
}
