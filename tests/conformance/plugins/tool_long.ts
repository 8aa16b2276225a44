import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Long: Plugin = async (_, options) => ({
  tool: {
    list: tool({
      description: "Lists",
      args: {},
      async execute() {
        record(options, { tool: "list" })
        return Array.from({ length: 3000 }, (_, number) => `line ${number}`).join("\n")
      },
    }),
  },
  async "tool.execute.after"(_, output) {
    const { truncated } = output.metadata
    record(options, { hook: "tool.execute.after", truncated, lines: output.output.split("\n").length < 2100 })
  },
})
