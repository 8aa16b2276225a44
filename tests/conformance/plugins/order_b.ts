import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Order: Plugin = async (_, options) => {
  record(options, { load: "b" })
  return {
    async "experimental.text.complete"(_input, output) {
      record(options, { hook: "text.complete", of: "b", text: output.text })
      output.text += " b"
    },
  }
}
