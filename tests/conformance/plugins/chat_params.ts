import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Params: Plugin = async (_, options) => ({
  async "chat.params"(input, output) {
    const { agent, model, provider, message } = input as any
    const named = { agent, model: model.id, of: model.providerID, provider: provider.id, role: message.role }
    record(options, { hook: "chat.params", input: keys(input), output: keys(output), ...named })
    output.temperature = 0.25
    output.topP = 0.5
    output.maxOutputTokens = 321
    output.options.user = "ada"
  },
})
