// The hooks of node's loader; they run in a thread of their own (node's documentation, "Customization hooks").

import { existsSync, statSync } from "node:fs"
import { readFile } from "node:fs/promises"
import module, { createRequire } from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const TYPESCRIPT = /\.[mc]?tsx?$|\.jsx$/
const ENDINGS = [".ts", ".tsx", ".mts", ".js", ".mjs", ".cjs", ".json", "/index.ts", "/index.tsx", "/index.js", "/index.mjs"]
const OFFERED = ["zod", "@opencode-ai/sdk"]

let port
let own
let last = 0
const waiting = new Map()

export function initialize(data) {
  ;({ port, own } = data)
  port.on("message", ({ id, folder, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error) reject(new Error(error))
    else resolve(folder)
  })
  port.unref()
}

function install(name) {
  const id = ++last
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    // Held until the answer is there: a thread that waits for nothing else would end.
    port.ref()
    port.postMessage({ id, name })
  }).finally(() => waiting.size || port.unref())
}

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context)
  } catch (error) {
    const url = beside(specifier, context.parentURL) ?? own[specifier]
    if (url) return { url, shortCircuit: true }
    const name = OFFERED.find((one) => specifier === one || specifier.startsWith(`${one}/`))
    if (!name) throw error
    const parent = pathToFileURL(join(await install(name), "index.js")).href
    return next(specifier, { ...context, parentURL: parent })
  }
}

// The file that an import without an ending means, or one of `.js` that is TypeScript.
function beside(specifier, parent) {
  if (!/^(\.{0,2}\/|file:)/.test(specifier) || !parent) return undefined
  const path = fileURLToPath(new URL(specifier, parent))
  const tried = [...ENDINGS.map((ending) => path + ending), path.replace(/\.([mc]?)js$/, ".$1ts"), path.replace(/\.jsx?$/, ".tsx")]
  const found = tried.find((one) => existsSync(one) && statSync(one).isFile())
  return found && pathToFileURL(found).href
}

export async function load(url, context, next) {
  if (!url.startsWith("file:")) return next(url, context)
  const path = fileURLToPath(url)
  if (TYPESCRIPT.test(path)) {
    const source = await transformed(await readFile(path, "utf8"), path)
    return { format: path.endsWith(".cts") ? "commonjs" : "module", source, shortCircuit: true }
  }
  const text = path.endsWith(".json") ? !context.importAttributes?.type : /\.(txt|md|sql|graphql)$/.test(path)
  if (!text) return next(url, context)
  const content = await readFile(path, "utf8")
  const value = path.endsWith(".json") ? content : JSON.stringify(content)
  return { format: "module", source: `export default ${value}`, shortCircuit: true }
}

async function transformed(source, path) {
  if (module.stripTypeScriptTypes && !path.endsWith("x")) {
    return module.stripTypeScriptTypes(source, { mode: "transform", sourceUrl: path })
  }
  const require = createRequire(join(await install("esbuild"), "index.js"))
  const { transform } = require("esbuild")
  const made = await transform(source, {
    loader: path.endsWith("x") ? "tsx" : "ts",
    format: path.endsWith(".cts") ? "cjs" : "esm",
    target: "node20",
    sourcefile: path,
    sourcemap: "inline",
    sourcesContent: false,
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: false, experimentalDecorators: true } },
  })
  return made.code
}
