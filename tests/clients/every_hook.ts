// Writes down what each hook is given, one line of JSON each, and what the plugin itself is.

import { appendFileSync } from "node:fs"

const HOOKS = [
  "chat.message", "chat.params", "chat.headers", "command.execute.before", "tool.execute.before", "tool.execute.after",
  "shell.env", "tool.definition", "config", "experimental.chat.messages.transform", "experimental.chat.system.transform",
  "experimental.session.compacting", "experimental.compaction.autocontinue", "experimental.text.complete",
]

export const Every = async (given: any, options: any) => {
  const put = (hook: string, input: unknown, output?: unknown) =>
    appendFileSync(options.trace, JSON.stringify({ hook, input, output }) + "\n")
  const { client, project, $ } = given
  const parts = Object.keys(client).map((name) => [name, Object.keys(client[name])])
  const shell = [$.escape("a b"), $.braces("x{a,b}"), await $`cat < ${new Response("said")}`.text()]
  put("plugin", { given: Object.keys(given).sort(), client: Object.fromEntries(parts), project, shell: shell.join(" ") })
  return Object.fromEntries(HOOKS.map((name) => [name, async (input: any, output: any) => put(name, input, output)]))
}
