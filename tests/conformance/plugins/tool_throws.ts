import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Throws: Plugin = async (_, options) => ({
  tool: {
    bake: tool({
      description: "Bakes",
      args: {},
      async execute() {
        record(options, { tool: "bake" })
        throw new Error("the oven is cold")
      },
    }),
  },
  async "tool.execute.after"({ tool }) {
    record(options, { hook: "tool.execute.after", tool })
  },
})
