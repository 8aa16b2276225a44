import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Command: Plugin = async (_, options) => ({
  async "command.execute.before"(input, output) {
    const [part] = output.parts as any[]
    const { command, arguments: words } = input
    record(options, { hook: "command.execute.before", input: keys(input), command, words, text: part.text })
    part.text += " Be kind."
  },
})
