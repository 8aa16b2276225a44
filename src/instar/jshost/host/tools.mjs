// A call of a plugin's tool, with what opencode gives it.

import { said } from "./peer.mjs"
import { hybrid } from "./effect.mjs"

// Run a tool and return {title, output, metadata, attachments}.
export async function execute(peer, tool, { args, context, call }, signal) {
  const given = {
    ...context,
    abort: signal,
    extra: {},
    metadata: (shown) => peer.notify("metadata", { call, title: shown?.title, metadata: shown?.metadata }),
    ask: (asked) => hybrid(() => peer.request("ask", { call, ...asked })),
  }
  // As the model gave them: opencode applies no default and no transform of zod's either (1.18.33).
  const answer = await tool.execute(args, given)
  if (typeof answer === "string") return { output: answer }
  if (!answer || typeof answer !== "object" || typeof answer.output !== "string") {
    throw new Error(`the tool returned ${said(answer ?? "nothing")}: expected a text, or an object with \`output\``)
  }
  const { title, output, metadata, attachments } = answer
  return { title, output, metadata, attachments }
}
