import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

export const Reads: Plugin = async ({ client }, options) => ({
  tool: {
    recall: tool({
      description: "Recalls",
      args: {},
      async execute(_, { sessionID }) {
        const sessions = (await client.session.list()).data ?? []
        const messages = (await client.session.messages({ path: { id: sessionID } })).data ?? []
        const one = (await client.session.get({ path: { id: sessionID } })).data
        record(options, { titles: sessions.map(({ title }) => title).sort(), title: one?.title })
        record(options, { messages: messages.map(({ info, parts }) => [info.role, ...parts.map((part) => part.type)].join(" ")) })
        return "recalled"
      },
    }),
  },
})
