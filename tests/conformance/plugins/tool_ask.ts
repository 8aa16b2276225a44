import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Ask: Plugin = async (_, options) => ({
  tool: {
    deploy: tool({
      description: "Deploys",
      args: { where: tool.schema.string() },
      async execute({ where }, context) {
        record(options, { tool: "deploy", step: "asks" })
        await context.ask({ permission: "deploy", patterns: [where], always: ["*"], metadata: { cost: 3 } })
        record(options, { tool: "deploy", step: "goes" })
        return `deployed to ${where}`
      },
    }),
  },
})
