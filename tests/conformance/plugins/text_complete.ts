import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Complete: Plugin = async (_, options) => ({
  async "experimental.text.complete"(input, output) {
    record(options, { hook: "text.complete", input: keys(input), text: output.text })
    output.text = output.text.toUpperCase()
  },
})
