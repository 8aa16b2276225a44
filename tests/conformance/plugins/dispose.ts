import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Dispose: Plugin = async (_, options) => ({
  async dispose() {
    record(options, { hook: "dispose" })
  },
})
