import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Guard: Plugin = async (_, options) => ({
  async "tool.execute.before"({ tool }) {
    record(options, { hook: "tool.execute.before", tool })
    throw new Error("this machine stays on")
  },
  async "tool.execute.after"({ tool }) {
    record(options, { hook: "tool.execute.after", tool })
  },
})
