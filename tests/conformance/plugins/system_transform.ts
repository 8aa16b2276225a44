import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const System: Plugin = async (_, options) => ({
  async "experimental.chat.system.transform"(input, output) {
    record(options, { hook: "system.transform", input: keys(input), model: input.model.id, blocks: output.system.length })
    output.system.push("You live on a boat.")
    output.system.push("It rains.")
  },
})
