import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Abort: Plugin = async (_, options) => ({
  tool: {
    wait: tool({
      description: "Waits",
      args: {},
      async execute(_, { abort }) {
        record(options, { tool: "wait", aborted: abort.aborted })
        await new Promise((resolve) => abort.addEventListener("abort", resolve))
        record(options, { tool: "wait", aborted: abort.aborted })
        return "never read"
      },
    }),
  },
})
