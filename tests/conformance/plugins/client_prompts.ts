import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Prompts: Plugin = async ({ client }, options) => {
  let done = false
  return {
    async event({ event }) {
      if (event.type !== "session.idle" || done) return
      done = true
      const id = event.properties.sessionID
      const parts = [{ type: "text" as const, text: "Remember the milk." }]
      const answer = await client.session.prompt({ path: { id }, body: { noReply: true, parts } })
      record(options, { role: answer.data?.info.role, text: (answer.data?.parts[0] as any)?.text })
      const made = await client.session.create({ body: { title: "made by a plugin" } })
      record(options, { title: made.data?.title })
    },
  }
}
