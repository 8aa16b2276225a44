// Bun's shell, as far as plugins use it, where node runs them: a template becomes a command of `sh`.

import { spawn } from "node:child_process"

export class ShellError extends Error {
  constructor(output, command) {
    super(`Failed with exit code ${output.exitCode}: ${command}`)
    this.name = "ShellError"
    Object.assign(this, { exitCode: output.exitCode, stdout: output.stdout, stderr: output.stderr })
  }
}

class ShellOutput {
  constructor(stdout, stderr, exitCode) {
    Object.assign(this, { stdout, stderr, exitCode })
  }
  text(encoding = "utf8") {
    return this.stdout.toString(encoding)
  }
  json() {
    return JSON.parse(this.text())
  }
  arrayBuffer() {
    return new Uint8Array(this.stdout).buffer
  }
  bytes() {
    return new Uint8Array(this.stdout)
  }
  blob() {
    return new Blob([this.stdout])
  }
}

// A command that starts when it is awaited.
class ShellPromise {
  constructor(command, settings, inputs) {
    this.command = command
    this.inputs = inputs
    this.settings = { ...settings }
  }
  set(changes) {
    Object.assign(this.settings, changes)
    return this
  }
  cwd(folder) {
    return this.set({ cwd: folder })
  }
  env(variables) {
    return this.set({ env: variables })
  }
  quiet(on = true) {
    return this.set({ quiet: on })
  }
  nothrow() {
    return this.set({ throws: false })
  }
  throws(on = true) {
    return this.set({ throws: on })
  }
  run() {
    this.started ??= start(this.command, this.settings, this.inputs)
    return this.started
  }
  then(resolve, reject) {
    return this.run().then(resolve, reject)
  }
  catch(reject) {
    return this.run().catch(reject)
  }
  finally(done) {
    return this.run().finally(done)
  }
  async text(encoding) {
    return (await this.quiet().run()).text(encoding)
  }
  async json() {
    return (await this.quiet().run()).json()
  }
  async arrayBuffer() {
    return (await this.quiet().run()).arrayBuffer()
  }
  async bytes() {
    return (await this.quiet().run()).bytes()
  }
  async blob() {
    return (await this.quiet().run()).blob()
  }
  // As Bun's: what ends with a newline has an empty line after it.
  async *lines() {
    yield* (await this.text()).split("\n")
  }
  get [Symbol.toStringTag]() {
    return "ShellPromise"
  }
}

function start(command, { cwd, env, quiet, throws }, inputs) {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", command], { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe", ...inputs.map(() => "pipe")] })
    inputs.forEach((input, index) => feed(child.stdio[FIRST + index], input).catch(reject))
    const out = []
    const err = []
    child.stdout.on("data", (data) => out.push(data) && (quiet || process.stdout.write(data)))
    child.stderr.on("data", (data) => err.push(data) && (quiet || process.stderr.write(data)))
    child.on("error", reject)
    child.on("close", (code, signal) => {
      const output = new ShellOutput(Buffer.concat(out), Buffer.concat(err), code ?? (signal ? 130 : 1))
      if (output.exitCode !== 0 && throws) reject(new ShellError(output, command))
      else resolve(output)
    })
  })
}

function quoted(value) {
  if (Array.isArray(value)) return value.map(quoted).join(" ")
  if (value && typeof value === "object" && typeof value.raw === "string") return value.raw
  if (value instanceof ShellPromise) return value.command
  return escape(String(value))
}

// As Bun's.
function escape(text) {
  return /^[A-Za-z0-9_\-./:@%+,]+$/.test(text) ? text : `"${text.replace(/[$`"\\]/g, "\\$&")}"`
}

// The texts that a text with braces stands for: `a{b,c}` is `ab` and `ac`.
function braces(text) {
  const [open, ...marks] = marksOf(text)
  if (open === undefined) return [text]
  const ends = [open, ...marks]
  const chosen = ends.slice(1).flatMap((end, index) => braces(text.slice(ends[index] + 1, end)))
  const rest = braces(text.slice(ends.at(-1) + 1))
  return chosen.flatMap((one) => rest.map((other) => text.slice(0, open) + one + other))
}

// Where the first braces that are closed open, have their commas and close.
function marksOf(text) {
  for (let open = text.indexOf("{"); open >= 0; open = text.indexOf("{", open + 1)) {
    const marks = [open]
    let depth = 0
    for (let at = open; at < text.length; at += 1) {
      if (text[at] === "{") depth += 1
      if (text[at] === "}") depth -= 1
      if (depth === 0 || (depth === 1 && text[at] === ",")) marks.push(at)
      if (depth === 0) break
    }
    if (depth === 0) return marks
  }
  return []
}

// The first number of a child's file that inputs are read from.
const FIRST = 3

const isInput = (value) => value instanceof Response || value instanceof Blob || value instanceof ArrayBuffer || ArrayBuffer.isView(value)

async function feed(pipe, input) {
  // A command may end before it has read everything.
  pipe.on("error", () => {})
  pipe.end(Buffer.from(await (input instanceof Response ? input : new Response(input)).arrayBuffer()))
}

function make(settings) {
  const shell = (strings, ...values) => {
    const inputs = []
    let text = ""
    for (const [index, part] of strings.raw.entries()) {
      text += part
      if (index === values.length) break
      const value = values[index]
      if (isInput(value) && /<\s*$/.test(text)) text = text.replace(/<\s*$/, `<&${FIRST - 1 + inputs.push(value)}`)
      else text += quoted(value)
    }
    return new ShellPromise(text, settings, inputs)
  }
  return Object.assign(shell, {
    cwd: (folder) => make({ ...settings, cwd: folder }),
    env: (variables) => make({ ...settings, env: variables }),
    nothrow: () => make({ ...settings, throws: false }),
    throws: (on = true) => make({ ...settings, throws: on }),
    escape: (value) => escape(String(value)),
    braces,
    ShellPromise,
    ShellError,
  })
}

export const $ = make({ throws: true, quiet: false })
