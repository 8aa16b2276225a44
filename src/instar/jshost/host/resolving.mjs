// What bun does with the files of plugins, where node runs them: TypeScript, endings that are left out, JSON and text.

import { createRequire, register } from "node:module"
import { join } from "node:path"
import { MessageChannel } from "node:worker_threads"

const OWN = {
  "@opencode-ai/plugin": new URL("./plugin.mjs", import.meta.url).href,
  "@opencode-ai/plugin/tool": new URL("./plugin.mjs", import.meta.url).href,
  bun: new URL("./bun.mjs", import.meta.url).href,
}

// Under bun: what is offered to plugins that do not bring it.
function offer(install) {
  const zod = async () => import(createRequire(join(await install("zod"), "index.js")).resolve("zod"))
  Bun.plugin({
    name: "instar",
    setup(build) {
      for (const name of ["@opencode-ai/plugin", "@opencode-ai/plugin/tool"]) {
        build.module(name, async () => {
          const { z } = await zod()
          return { loader: "object", exports: { tool: Object.assign((definition) => definition, { schema: z }) } }
        })
      }
    },
  })
}

// Set up how modules are found. `install(name)` gives the folder of a package that plugins may count on.
export function prepare(install) {
  if (globalThis.Bun) return offer(install)
  // Bun gives it to every module, and bundlers ask for it there.
  globalThis.require ??= createRequire(import.meta.url)
  const { port1, port2 } = new MessageChannel()
  port1.on("message", async ({ id, name }) => {
    try {
      port1.postMessage({ id, folder: await install(name) })
    } catch (error) {
      port1.postMessage({ id, error: error.message })
    }
  })
  port1.unref()
  register("./hooks.mjs", import.meta.url, { data: { port: port2, own: OWN }, transferList: [port2] })
}
