import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

const NAMES = ["sessionID", "messageID", "callID", "agent", "abort", "messages", "metadata", "ask", "directory", "worktree"]

export const Context: Plugin = async ({ directory, worktree }, options) => {
  let shown = () => {}
  const seen = new Promise<void>((resolve) => (shown = resolve))
  return {
  tool: {
    look: tool({
      description: "Looks around",
      args: {},
      async execute(_, context: any) {
        const has = NAMES.filter((name) => context[name] !== undefined)
        const same = context.directory === directory && context.worktree === worktree
        record(options, { tool: "look", has, same, agent: context.agent, messages: context.messages?.length })
        context.metadata({ title: "half way", metadata: { seen: 1 } })
        await Promise.race([seen, new Promise((resolve) => setTimeout(resolve, 2000))])
        return { title: "all of it", output: "a boat", metadata: { seen: 2 } }
      },
    }),
  },
  async event({ event }) {
    const { part } = event.properties as any
    if (part?.tool !== "look" || part.state.title !== "half way") return
    record(options, { shown: part.state.metadata })
    shown()
  },
}
}
