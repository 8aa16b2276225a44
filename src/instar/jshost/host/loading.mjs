// Loading a plugin's module: which file it is, and which of its exports are plugins.

import { existsSync, readFileSync, statSync } from "node:fs"
import { basename, extname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { describe } from "./schema.mjs"

const INDEX = ["index.ts", "index.tsx", "index.js", "index.mjs", "index.cjs"]
const CONDITIONS = globalThis.Bun ? ["bun", "import", "node", "default", "require"] : ["import", "node", "default", "require"]

// Return the plugin functions of a module: {id, servers, url, describe}. `file`: it is no package.
export async function load(target, file) {
  const path = statSync(target).isDirectory() ? entry(target) : target
  const url = pathToFileURL(path).href
  return { ...offered(await import(url), file ? target : null), url, describe }
}

// Return the tools of a file by their names, as opencode names and picks them (1.18.33), and what is to be said of exports
// that nearly are one. An export that is none is no mistake: what tools share may stand beside them.
export async function toolsOf(path) {
  const module = await import(pathToFileURL(path).href)
  const stem = basename(path, extname(path))
  const tool = {}
  const half = []
  for (const [name, value] of Object.entries(module)) {
    if (!value || typeof value !== "object" || !("execute" in value) || name === "module.exports") continue
    const own = name === "default" ? stem : `${stem}_${name}`
    const lacks = ["args", "description"].filter((key) => !(key in value))
    if (lacks.length) half.push(`${own} is left out: a tool needs ${lacks.map((key) => `\`${key}\``).join(" and ")}`)
    else tool[own] = value
  }
  if (half.length && !Object.keys(tool).length) throw new Error(half.join("; "))
  return { tool, half, describe }
}

// Whether a plugin asked for what bun has and node has not.
export function wantsBun(error) {
  return !globalThis.Bun && /\bBun is not defined|module 'bun'|'bun:/.test(error?.message ?? "")
}

// The file that a folder's package.json names, else its index.
function entry(folder) {
  const described = join(folder, "package.json")
  const said = existsSync(described) ? JSON.parse(readFileSync(described, "utf8")) : {}
  const named = [exported(said.exports, "./server"), exported(said.exports, "."), said.module, said.main]
  const tried = [...named.filter((one) => typeof one === "string"), ...INDEX]
  for (const name of tried) {
    const path = resolve(folder, name)
    if (existsSync(path) && statSync(path).isFile()) return path
    for (const ending of [".js", ".ts", "/index.js", "/index.ts"]) if (existsSync(path + ending)) return path + ending
  }
  throw new Error(`${folder} has no package.json that names its file, and no index.ts or index.js`)
}

function exported(exports, name) {
  if (exports === undefined || exports === null) return undefined
  const plain = typeof exports === "string" || Array.isArray(exports) || !Object.keys(exports).some((key) => key.startsWith("."))
  if (plain) return name === "." ? picked(exports) : undefined
  return picked(exports[name])
}

function picked(value) {
  if (typeof value === "string" || value === undefined || value === null) return value
  if (Array.isArray(value)) return value.map(picked).find((one) => typeof one === "string")
  for (const key of Object.keys(value)) if (CONDITIONS.includes(key)) return picked(value[key])
  return undefined
}

function offered(module, path) {
  const main = module.default
  if (main && typeof main === "object" && ["id", "server", "tui"].some((key) => key in main)) return v1(main, path)
  const servers = new Set()
  for (const [name, value] of Object.entries(exportsOf(module))) {
    const server = value && typeof value === "object" && "server" in value ? value.server : value
    if (typeof server !== "function") throw new Error(`Plugin export is not a function: ${name} is a ${typeof server}`)
    servers.add(server)
  }
  if (!servers.size) throw new Error("it exports no plugin: neither a function nor an object with `server`")
  return { id: null, servers: [...servers] }
}

function v1(main, path) {
  if (main.server !== undefined && main.tui !== undefined) throw new Error("its default export has `server` and `tui`: one of them")
  if (typeof main.server !== "function") throw new Error("its default export has no `server` that is a function")
  if (path !== null && (typeof main.id !== "string" || !main.id.trim())) throw new Error(`Path plugin ${path} must export id`)
  return { id: typeof main.id === "string" ? main.id.trim() : null, servers: [main.server] }
}

// The exports in the order of their names, as in opencode. A CommonJS module has what it exports twice: by name, and whole
// as `default`.
function exportsOf(module) {
  const { "module.exports": _whole, __esModule: _flag, ...given } = module
  const { default: main, ...named } = given
  // Bun gives the fields of a function that is the whole of a module by name too.
  if (typeof main === "function" && Object.keys(named).every((name) => named[name] === main[name] && typeof named[name] !== "function")) {
    return { default: main }
  }
  if (main === undefined) return named
  if (!main || typeof main !== "object" || "server" in main) return given
  const same = Object.keys(named).every((name) => named[name] === main[name])
  if (!same) return given
  const { __esModule: _, ...whole } = main
  return whole
}
