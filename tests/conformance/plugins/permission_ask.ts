import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Permission: Plugin = async (_, options) => ({
  async "permission.ask"(_input, output) {
    record(options, { hook: "permission.ask", status: output.status })
  },
})
