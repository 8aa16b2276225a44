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
  constructor(command, settings) {
    this.command = command
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
    this.started ??= start(this.command, this.settings)
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

function start(command, { cwd, env, quiet, throws }) {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", command], { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"] })
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

function escape(text) {
  return /^[A-Za-z0-9_\-./:=@%+,]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

function make(settings) {
  const shell = (strings, ...values) => {
    const text = strings.raw.map((part, index) => part + (index < values.length ? quoted(values[index]) : "")).join("")
    return new ShellPromise(text, settings)
  }
  return Object.assign(shell, {
    cwd: (folder) => make({ ...settings, cwd: folder }),
    env: (variables) => make({ ...settings, env: variables }),
    nothrow: () => make({ ...settings, throws: false }),
    throws: (on = true) => make({ ...settings, throws: on }),
    escape,
    ShellError,
  })
}

export const $ = make({ throws: true, quiet: false })
