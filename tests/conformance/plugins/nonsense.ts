import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Nonsense: Plugin = async (_, options) => ({
  async "tool.execute.after"(_input, output) {
    record(options, { hook: "tool.execute.after" })
    output.output = { of: 42 } as any
  },
})
