// What a hook changed in its output, so that only that crosses over.

// Return what later tells which of the keys of `output` a hook changed.
export function changes(output) {
  const before = new Map(Object.entries(output).map(([key, value]) => [key, JSON.stringify(value)]))
  return {
    found() {
      const changed = {}
      const removed = []
      for (const [key, text] of before) {
        if (output[key] === undefined) removed.push(key)
        else if (JSON.stringify(output[key]) !== text) changed[key] = output[key]
      }
      for (const key of Object.keys(output)) if (!before.has(key) && output[key] !== undefined) changed[key] = output[key]
      return { changed, removed }
    },
  }
}

// The messages of sessions as they were sent: whole once, then as patches.
export class Histories {
  constructor() {
    this.sessions = new Map()
  }

  patched(session, length, set, forget) {
    for (const one of forget) this.sessions.delete(one)
    let sent = this.sessions.get(session)
    if (!sent) this.sessions.set(session, (sent = []))
    sent.length = length
    for (const [index, message] of set) sent[index] = message
    return new History([...sent])
  }
}

class History {
  constructor(sent) {
    this.sent = sent
  }

  // Objects of the plugin's own: what it keeps of them and changes later changes nothing.
  fresh() {
    const messages = this.sent.map(copied)
    this.places = new Map(messages.map((message, index) => [message, index]))
    return messages
  }

  // What stands there now: the number of a message that is as it was sent, or a message. Null when all of it is.
  found(messages) {
    // A number of the plugin's own would stand for a message.
    if (!Array.isArray(messages) || messages.some((one) => typeof one === "number")) return { invalid: true }
    let same = messages.length === this.sent.length
    const left = messages.map((message, index) => {
      const place = this.places.get(message)
      if (place !== undefined && unchanged(message, this.sent[place])) {
        same &&= place === index
        return place
      }
      same = false
      return message
    })
    return same ? null : { messages: left }
  }
}

// A copy of what JSON can say: of a long session a fraction of the time that parsing its text takes.
function copied(value) {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(copied)
  const made = {}
  for (const key of Object.keys(value)) {
    // A plain assignment to this one would set what the object inherits from.
    if (key === "__proto__") Object.defineProperty(made, key, { value: copied(value[key]), enumerable: true, configurable: true, writable: true })
    else made[key] = copied(value[key])
  }
  return made
}

// Whether `value`, as a plugin left it, says what `sent` says, which JSON can say.
function unchanged(value, sent) {
  if (value === sent) return true
  if (typeof value !== "object" || value === null || typeof sent !== "object" || sent === null) return false
  if (Array.isArray(sent)) {
    return Array.isArray(value) && value.length === sent.length && sent.every((item, index) => unchanged(value[index], item))
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  for (const key of Object.keys(sent)) if (!Object.hasOwn(value, key) || !unchanged(value[key], sent[key])) return false
  return Object.keys(value).every((key) => Object.hasOwn(sent, key) || value[key] === undefined)
}
