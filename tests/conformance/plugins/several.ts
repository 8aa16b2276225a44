import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Alpha: Plugin = async (_, options) => ({
  async "chat.message"() {
    record(options, { hook: "chat.message", of: "alpha" })
  },
})

export const Beta: Plugin = async (_, options) => ({
  async "chat.message"() {
    record(options, { hook: "chat.message", of: "beta" })
  },
})

// The same function under another name is the same plugin.
export const Gamma = Beta

export default Alpha
