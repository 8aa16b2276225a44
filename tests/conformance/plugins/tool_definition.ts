import { type Plugin, tool } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Definition: Plugin = async (_, options) => ({
  tool: {
    greet: tool({
      description: "Greets somebody",
      args: { name: tool.schema.string() },
      async execute({ name }) {
        return `hello ${name}`
      },
    }),
  },
  async "tool.definition"(input, output: any) {
    if (input.toolID === "bash") {
      record(options, { hook: "tool.definition", input: keys(input), described: output.description.length > 0 })
      output.description = "Runs nothing."
    }
    if (input.toolID === "greet") {
      record(options, { hook: "tool.definition", description: output.description, required: output.jsonSchema.required })
      output.jsonSchema.properties.name.description = "Whom."
    }
  },
})
