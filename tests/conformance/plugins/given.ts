import type { Plugin } from "@opencode-ai/plugin"
import { record } from "./record"

export const Given: Plugin = async ({ client, project, directory, worktree, serverUrl, $ }, options) => {
  const { trace: _, ...rest } = options as any
  record(options, { load: "given", options: rest, same: directory === worktree, vcs: project.vcs })
  return {
    async "chat.message"() {
      record(options, { client: typeof client.session.list, url: serverUrl.protocol, shell: typeof $ })
    },
  }
}
