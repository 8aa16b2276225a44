import { type Plugin, tool } from "@opencode-ai/plugin"
import { record } from "./record"

const url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

export const Attachments: Plugin = async (_, options) => ({
  tool: {
    draw: tool({
      description: "Draws",
      args: {},
      async execute() {
        record(options, { tool: "draw" })
        return { output: "drawn", attachments: [{ type: "file", mime: "image/png", filename: "boat.png", url }] }
      },
    }),
  },
})
