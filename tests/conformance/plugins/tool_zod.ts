import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Zod: Plugin = async (_, options) => ({
  tool: {
    greet: tool({
      description: "Greets somebody",
      args: {
        name: tool.schema.string().describe("whom to greet"),
        times: tool.schema.number().int().min(1).default(2),
        loud: tool.schema.boolean().optional(),
        tone: tool.schema.enum(["warm", "cold"]).optional(),
      },
      async execute(args) {
        record(options, { tool: "greet", args })
        return Array(args.times ?? 1).fill(`hello ${args.name}`).join(", ")
      },
    }),
  },
})
