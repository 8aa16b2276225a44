import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Throws: Plugin = async (_, options) => {
  record(options, { load: "throws_at_load" })
  throw new Error("there is no wind")
}
