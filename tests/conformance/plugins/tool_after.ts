import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const After: Plugin = async (_, options) => ({
  async "tool.execute.after"(input, output) {
    const told = { input: keys(input), tool: input.tool, args: input.args, output: output.output, title: output.title }
    record(options, { hook: "tool.execute.after", ...told })
    output.output = output.output.toUpperCase()
    output.title = "Loud"
    output.metadata.loud = true
  },
})
