import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Compacting: Plugin = async (_, options) => ({
  async "experimental.session.compacting"(input, output) {
    record(options, { hook: "session.compacting", input: keys(input), context: output.context, prompt: output.prompt })
    output.context.push("Keep every file name.")
  },
})
