import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Headers: Plugin = async (_, options) => ({
  async "chat.headers"(input, output) {
    record(options, { hook: "chat.headers", input: keys(input), headers: output.headers })
    output.headers["x-of"] = `Ada, ${input.agent}`
  },
})
