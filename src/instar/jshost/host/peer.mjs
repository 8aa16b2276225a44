// One end of JSON-RPC 2.0 in frames: four bytes of length, big-endian, then that many bytes of JSON (docs/reference/plugin-protocol.md).

const HEAD = 4
const MOST = 256 * 1024 * 1024

export class Peer {
  // `socket` is a duplex stream, `methods` what the other end may ask: name -> (params, signal) => result.
  constructor(socket, methods) {
    this.socket = socket
    this.methods = methods
    this.chunks = []
    this.size = 0
    this.last = 0
    this.waiting = new Map()
    this.running = new Map()
    socket.on("data", (chunk) => this.take(chunk))
  }

  // Ask the other end; rejects with its error. Once `signal` is raised nobody waits, and the other end is told.
  request(method, params, signal) {
    const id = ++this.last
    const asking = new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject })
      this.send({ jsonrpc: "2.0", id, method, params })
    })
    if (!signal) return asking
    const cancel = () => {
      this.notify("cancel", { id })
      this.settle({ id, error: { message: "it was aborted" } })
    }
    if (signal.aborted) cancel()
    signal.addEventListener("abort", cancel, { once: true })
    return asking.finally(() => signal.removeEventListener("abort", cancel))
  }

  // The other end has gone: whoever waits for it is told why.
  close(error) {
    for (const { reject } of this.waiting.values()) reject(error)
    this.waiting.clear()
  }

  notify(method, params) {
    this.send({ jsonrpc: "2.0", method, params })
  }

  send(message) {
    const body = Buffer.from(JSON.stringify(message), "utf8")
    const frame = Buffer.allocUnsafe(HEAD + body.length)
    frame.writeUInt32BE(body.length, 0)
    body.copy(frame, HEAD)
    this.socket.write(frame)
  }

  take(chunk) {
    this.chunks.push(chunk)
    this.size += chunk.length
    for (;;) {
      if (this.size < HEAD) return
      if (this.chunks[0].length < HEAD) this.chunks = [Buffer.concat(this.chunks)]
      const length = this.chunks[0].readUInt32BE(0)
      if (length > MOST) throw new Error(`a frame of ${length} bytes is longer than ${MOST}`)
      if (this.size < HEAD + length) return
      const whole = this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks)
      const rest = whole.subarray(HEAD + length)
      this.chunks = rest.length ? [rest] : []
      this.size = rest.length
      this.receive(JSON.parse(whole.toString("utf8", HEAD, HEAD + length)))
    }
  }

  receive(message) {
    if (message.method === undefined) return this.settle(message)
    if (message.method === "cancel") return this.running.get(message.params.id)?.abort()
    this.answer(message)
  }

  settle({ id, result, error }) {
    const waiting = this.waiting.get(id)
    this.waiting.delete(id)
    if (error) waiting?.reject(new Error(error.message))
    else waiting?.resolve(result)
  }

  async answer({ id, method, params }) {
    const controller = new AbortController()
    if (id !== undefined) this.running.set(id, controller)
    let reply
    try {
      const found = this.methods[method]
      if (!found) throw new Error(`there is no method ${method}`)
      const result = await found(params, controller.signal)
      // Here, so that what is not JSON is the method's own failure.
      JSON.stringify(result)
      reply = { jsonrpc: "2.0", id, result: result ?? null }
    } catch (error) {
      reply = { jsonrpc: "2.0", id, error: { code: -32000, message: said(error), data: { stack: stack(error) } } }
    }
    if (id === undefined) return
    this.running.delete(id)
    this.send(reply)
  }
}

// What an error says, whatever was thrown.
export function said(error) {
  if (error instanceof Error) return error.message || error.name
  if (error && typeof error === "object" && typeof error.message === "string") return error.message
  try {
    return typeof error === "string" ? error : JSON.stringify(error) ?? String(error)
  } catch {
    return String(error)
  }
}

function stack(error) {
  return error instanceof Error && typeof error.stack === "string" ? error.stack : ""
}
