import type { Plugin } from "@opencode-ai/plugin"
import { keys, record } from "./record"

export const Env: Plugin = async ({ directory }, options) => ({
  async "shell.env"(input, output) {
    record(options, { hook: "shell.env", input: keys(input), here: input.cwd === directory, env: output.env })
    output.env.CAPTAIN = "Ada"
  },
})
