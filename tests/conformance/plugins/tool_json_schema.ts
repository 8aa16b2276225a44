import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const JsonSchema: Plugin = async (_, options) => ({
  tool: {
    weigh: {
      description: "Weighs something",
      args: { what: { type: "string", description: "what to weigh" }, unit: { type: "string", enum: ["g", "kg"] } } as any,
      async execute(args: any) {
        record(options, { tool: "weigh", args })
        return { title: "Weighed", output: `${args.what}: 3 ${args.unit}`, metadata: { grams: 3 } }
      },
    },
  },
})
