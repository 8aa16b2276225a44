import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Shell: Plugin = async ({ $ }, options) => {
  const word = "a  b; echo c"
  const text = await $`echo ${word}`.text()
  const failed = await $`exit 3`.nothrow().quiet()
  const lines = []
  for await (const line of $`printf 'x\ny\n'`.lines()) if (line) lines.push(line)
  record(options, { text, code: failed.exitCode, lines, json: await $`echo '{"a": 1}'`.json() })
  return {}
}
