import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Compacting: Plugin = async (_, options) => ({
  async "experimental.session.compacting"(_input, output) {
    record(options, { hook: "session.compacting" })
    output.prompt = "Say it in three words."
  },
})
