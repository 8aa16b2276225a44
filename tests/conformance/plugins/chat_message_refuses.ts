import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Refuses: Plugin = async (_, options) => ({
  async "chat.message"() {
    record(options, { hook: "chat.message" })
    throw new Error("no prompts today")
  },
})
