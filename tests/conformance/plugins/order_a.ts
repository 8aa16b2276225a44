import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Order: Plugin = async (_, options) => {
  record(options, { load: "a" })
  return {
    async "experimental.text.complete"(_input, output) {
      record(options, { hook: "text.complete", of: "a", text: output.text })
      output.text += " a"
    },
  }
}
