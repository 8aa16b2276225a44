import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Throws: Plugin = async (_, options) => ({
  async "experimental.chat.system.transform"(_input, output) {
    record(options, { hook: "system.transform" })
    output.system.push("Half a thought")
    throw new Error("there is no wind")
  },
})
