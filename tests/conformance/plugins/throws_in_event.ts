import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Throws: Plugin = async (_, options) => ({
  async event({ event }) {
    if (event.type !== "session.idle") return
    record(options, { event: event.type })
    throw new Error("there is no wind")
  },
})
