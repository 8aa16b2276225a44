import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Messages: Plugin = async (_, options) => ({
  async "experimental.chat.messages.transform"(input, output) {
    const told = output.messages.map(({ info, parts }) => [info.role, ...parts.map((part) => part.type)].join(" "))
    record(options, { hook: "messages.transform", input: keys(input), messages: told })
    const [first] = output.messages
    const text = first.parts.find((part) => part.type === "text") as any
    text.text += " And bread."
    const again = { ...first, parts: [{ ...text, id: text.id + "x", text: "Then again." }] }
    output.messages.push(again)
  },
})
