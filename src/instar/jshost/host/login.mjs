// A login's `loader`, and its `fetch`: instar hands a provider's calls over, and reads the answers' bodies in pieces.

import { portable } from "./functions.mjs"

export class Login {
  // `auth` is what a plugin registered under that name, `getAuth` gives what is kept of the login.
  constructor(auth, getAuth) {
    this.auth = auth
    this.getAuth = getAuth
    this.streams = new Map()
    this.last = 0
  }

  // Return the options that the loader gives, and whether there is a `fetch` beside them.
  async load(provider, peer) {
    const given = (await this.auth.loader(this.getAuth, provider)) ?? {}
    const { fetch, ...options } = given
    this.fetch = typeof fetch === "function" ? fetch.bind(given) : undefined
    return { options: portable(options, peer), fetch: Boolean(this.fetch) }
  }

  // Send a request as the plugin does: as opencode hands it over, an address and plain fields.
  async send({ url, method, headers, body }, signal) {
    if (!this.fetch) return null
    const controller = new AbortController()
    signal.addEventListener("abort", () => controller.abort())
    let response
    try {
      response = await this.fetch(url, { method, headers, body, signal: controller.signal })
    } catch (error) {
      // What node and bun throw when nobody answers.
      if (error instanceof TypeError && error.message === "fetch failed") return { unreached: `fetch failed: ${error.cause?.message ?? ""}` }
      if (["ConnectionRefused", "FailedToOpenSocket", "ConnectionClosed"].includes(error?.code)) return { unreached: error.message }
      throw error
    }
    if (!(response instanceof Response)) throw new Error("its `fetch` returned no Response")
    let stream = null
    if (response.body) {
      stream = ++this.last
      this.streams.set(stream, { reader: response.body.getReader(), controller })
    }
    return { status: response.status, headers: [...response.headers], stream }
  }

  // The next piece of a body in base64, null after the last one.
  async read(stream) {
    const { done, value } = await this.streams.get(stream).reader.read()
    if (!done) return Buffer.from(value).toString("base64")
    this.streams.delete(stream)
    return null
  }

  close(stream) {
    const { reader, controller } = this.streams.get(stream) ?? {}
    this.streams.delete(stream)
    // Bun does not close the connection of a body that is only cancelled. It may have failed already.
    controller?.abort()
    reader?.cancel().catch(() => {})
  }
}
