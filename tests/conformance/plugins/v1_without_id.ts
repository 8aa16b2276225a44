import { record } from "./record"

export default {
  async server(_: unknown, options: any) {
    return {
      async "chat.message"() {
        record(options, { hook: "chat.message" })
      },
    }
  },
}
