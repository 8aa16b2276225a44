// Calls methods of an SDK client by their names and keeps what came back.

const PATIENCE = 30_000;

export class Recorder {
  calls = [];
  events = [];
  everywhere = [];
  #client;
  #waiting = [];

  constructor(client) {
    this.#client = client;
  }

  // Call `session.get` and the like; `variant` tells calls of one method apart. Returns the answer's data.
  async ask(name, parameters, variant = "") {
    const path = name.split(".");
    const method = path.pop();
    const room = path.reduce((found, part) => found[part], this.#client);
    const { data, error, response } = await room[method](parameters);
    const body = data === undefined ? error : data;
    this.calls.push({ name, variant, status: response.status, body });
    return data;
  }

  // Keep the events of a stream; returns once it is connected.
  async listen({ stream }) {
    this.#take(await first(stream));
    (async () => {
      for await (const event of stream) this.#take(event);
    })().catch(() => {});
  }

  // Wait for an event of a type about a session that comes after `earlier`, an event, or ever; returns it.
  async until(type, sessionID, earlier = undefined) {
    const fits = (event) => event.type === type && event.properties.sessionID === sessionID;
    const found = this.events.slice(this.events.indexOf(earlier) + 1).find(fits);
    if (found) return found;
    return new Promise((resolve, reject) => {
      const late = new Error(`no ${type} came for ${sessionID}`);
      const timer = setTimeout(() => reject(late), PATIENCE);
      this.#waiting.push({ fits, resolve: (event) => (clearTimeout(timer), resolve(event)) });
    });
  }

  // Start a turn and wait for an event in it; returns that event.
  async start(name, parameters, variant, type, sessionID) {
    // The events of the turn before come after its answer.
    const before = this.events.findLast((event) => event.properties.sessionID === sessionID);
    await this.ask(name, parameters, variant);
    return this.until(type, sessionID, before);
  }

  // Keep what a stream tells of all folders.
  async overhear({ stream }) {
    this.everywhere.push(await first(stream));
    (async () => {
      for await (const event of stream) this.everywhere.push(event);
    })().catch(() => {});
  }

  #take(event) {
    this.events.push(event);
    for (const one of this.#waiting.filter(({ fits }) => fits(event))) one.resolve(event);
    this.#waiting = this.#waiting.filter(({ fits }) => !fits(event));
  }

  // Wait until each stream has told of this session, and so of all that came before it.
  async catchUp(sessionID) {
    await this.until("session.created", sessionID);
    const told = ({ payload }) => payload.type === "session.created" && payload.properties.sessionID === sessionID;
    const end = Date.now() + PATIENCE;
    while (this.everywhere.length && !this.everywhere.some(told)) {
      if (Date.now() > end) throw new Error(`/global/event does not tell of ${sessionID}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  // Print everything and end.
  finish(rooms) {
    const methods = rooms.flatMap((room) => named(this.#client[room], room));
    const { calls, events, everywhere } = this;
    process.stdout.write(JSON.stringify({ methods, calls, events, everywhere }), () => process.exit(0));
  }
}

async function first(stream) {
  const { value } = await stream.next();
  if (!value) throw new Error("the server opened no event stream");
  return value;
}

// The methods of a room of the client and of the rooms below it, as `room.method`.
function named(room, prefix) {
  const found = [];
  const below = new Set([...Object.keys(room), ...Object.getOwnPropertyNames(Object.getPrototypeOf(room))]);
  for (const name of below) {
    if (name === "constructor" || name.startsWith("_") || name === "client") continue;
    const value = room[name];
    if (typeof value === "function") found.push(`${prefix}.${name}`);
    else if (value && typeof value === "object") found.push(...named(value, `${prefix}.${name}`));
  }
  return found;
}
