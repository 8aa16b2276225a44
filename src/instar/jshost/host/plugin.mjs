// Stands for @opencode-ai/plugin where a plugin does not bring it: of what that offers, only `tool` is there at run time.

import { z } from "zod"

export function tool(definition) {
  return definition
}
tool.schema = z
