// What the plugins of this folder write down of what they are called with: one line of JSON each.

import { appendFileSync } from "node:fs"

export function record(options: any, entry: Record<string, unknown>) {
  appendFileSync(options.trace, JSON.stringify(entry) + "\n")
}

// The names of what is there, in the order of the alphabet.
export function keys(value: object) {
  return Object.entries(value)
    .filter(([, one]) => one !== undefined)
    .map(([name]) => name)
    .sort()
}
