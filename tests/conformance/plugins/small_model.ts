import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Small: Plugin = async (_, options) => ({
  async "experimental.provider.small_model"(input, output) {
    const models = Object.keys(input.provider.models).sort()
    record(options, { hook: "small_model", input: keys(input), provider: input.provider.id, models })
    output.model = input.provider.models["n"]
  },
})
