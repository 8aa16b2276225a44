import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

const HOOKS = [
  "chat.message",
  "chat.params",
  "chat.headers",
  "tool.execute.before",
  "tool.execute.after",
  "shell.env",
  "experimental.chat.messages.transform",
  "experimental.chat.system.transform",
  "experimental.text.complete",
]

// Every hook of a turn, in the order in which they are called.
export const Turn: Plugin = async (_, options) =>
  Object.fromEntries(HOOKS.map((hook) => [hook, async () => record(options, { hook })]))
