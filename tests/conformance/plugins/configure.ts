import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Configure: Plugin = async (_, options) => ({
  async config(config: any) {
    record(options, { hook: "config", model: config.model, providers: Object.keys(config.provider) })
    config.agent = { ...config.agent, poet: { prompt: "You are a poet.", mode: "primary", description: "writes" } }
    config.command = { ...config.command, greet: { template: "Greet $1.", agent: "poet" } }
  },
})
