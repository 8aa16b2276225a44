import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Prints: Plugin = async (_, options) => {
  console.log("a plugin is loaded")
  return {
    async "chat.message"() {
      record(options, { hook: "chat.message" })
      console.log('{"jsonrpc": "2.0", "id": 1, "result": {}}')
      process.stdout.write("half a line")
      console.error("and more")
    },
  }
}
