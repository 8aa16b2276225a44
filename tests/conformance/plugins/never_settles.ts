import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Never: Plugin = async (_, options) =>
  ({
    async "experimental.chat.system.transform"() {
      record(options, { hook: "system.transform" })
      await new Promise(() => {})
    },
    timeout: 0.3,
  }) as any
