// Values with functions in them, as `auth`, `provider` and workspace adapters are: a function crosses over as a number.

const functions = new Map()
let last = 0

// Return `value` with each function in it as {"$function": number}.
export function portable(value, peer) {
  if (typeof value === "function") return { $function: keep(value) }
  if (value instanceof URL) return String(value)
  if (Array.isArray(value)) return value.map((item) => portable(item, peer))
  if (value && typeof value === "object") {
    const found = {}
    for (const name of names(value)) {
      const item = value[name]
      if (item === undefined) continue
      found[name] = typeof item === "function" ? { $function: keep(item.bind(value)) } : portable(item, peer)
    }
    return found
  }
  return value
}

// Call a function by its number; {"$value": x} in its place is a function that gives x.
export async function call(number, args) {
  const found = functions.get(number)
  if (!found) throw new Error(`there is no function ${number} any more`)
  return found(...args.map((arg) => (arg && typeof arg === "object" && "$value" in arg ? async () => arg.$value : arg)))
}

function keep(item) {
  functions.set(++last, item)
  return last
}

// An adapter may be an instance of a class: its methods stand on the prototype.
function names(value) {
  const found = new Set(Object.keys(value))
  const above = Object.getPrototypeOf(value)
  if (above && above !== Object.prototype) {
    for (const name of Object.getOwnPropertyNames(above)) if (name !== "constructor") found.add(name)
  }
  return found
}
