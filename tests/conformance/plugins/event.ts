import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

const TYPES = ["session.created", "session.status", "session.idle", "message.updated", "message.part.updated"]

export const Events: Plugin = async (_, options) => {
  let over = false
  return {
    async event({ event }) {
      if (over || !TYPES.includes(event.type)) return
      over = event.type === "session.idle"
      const { info, part, status } = event.properties as any
      const words = [info?.role, part?.type, part?.state?.status, status?.type]
      record(options, { event: event.type, detail: words.filter(Boolean).join(" ") })
    },
  }
}
