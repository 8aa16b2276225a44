import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Right: Plugin = async (_, options) => ({
  async "chat.message"() {
    record(options, { hook: "chat.message" })
  },
})

export const version = 5
