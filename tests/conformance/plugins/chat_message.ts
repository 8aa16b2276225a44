import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const ChatMessage: Plugin = async (_, options) => ({
  async "chat.message"(input, output) {
    const [part] = output.parts as any[]
    const { agent, model, role } = output.message
    record(options, { hook: "chat.message", input: keys(input), agent, model, role, part: keys(part), text: part.text })
    part.text += " (asked by Ada)"
    output.parts.push({ ...part, id: part.id + "x", text: "It is late.", synthetic: true })
  },
})
