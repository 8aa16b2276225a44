import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Before: Plugin = async (_, options) => ({
  async "tool.execute.before"(input, output) {
    record(options, { hook: "tool.execute.before", input: keys(input), tool: input.tool, args: output.args })
    output.args.command = "echo changed"
  },
})
