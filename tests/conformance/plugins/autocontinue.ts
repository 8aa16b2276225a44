import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Autocontinue: Plugin = async (_, options) => ({
  async "experimental.compaction.autocontinue"(input, output) {
    const { agent, model, message, overflow } = input
    const named = { agent, model: model.id, role: message.role, overflow, enabled: output.enabled }
    record(options, { hook: "compaction.autocontinue", input: keys(input), ...named })
    output.enabled = false
  },
})
