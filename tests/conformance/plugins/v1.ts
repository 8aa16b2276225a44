import type { PluginModule } from "@opencode-ai/plugin"
import { record } from "./record"

export default {
  id: "v1",
  async server(_, options) {
    return {
      async "chat.message"() {
        record(options, { hook: "chat.message", of: "v1" })
      },
    }
  },
} satisfies PluginModule

// Beside a default export of this form nothing else counts.
export const Other = async (_: unknown, options: any) => {
  record(options, { load: "other" })
  return {}
}
