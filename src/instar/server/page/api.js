// @ts-check
/** Talking with the server: requests, the login, the stream of events. Nothing here knows what is shown. */

/** @typedef {{ id: string, type: string, directory?: string, properties: any }} Event */

const KEPT = "instar.key";
const QUIET = 25_000; // the server sends a heartbeat every 10 seconds
const LONGEST_PAUSE = 5_000;

/** One half of the login; the other is a cookie that no script reads. It is kept in memory alone: what a browser keeps in files, programs of the model could read. */
let key = "";
/** @type {() => void} */
let lost = () => {};
/** What ends the stream of events. */
let cut = new AbortController();
/** @type {BroadcastChannel} */
const others = new BroadcastChannel("instar");

/** An answer that says no; `message` is the server's. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @param {string} method @param {string} path @param {unknown} [body] @param {RequestInit} [more] */
async function send(method, path, body, more = {}) {
  const headers = { "X-Instar-Key": key, ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body), ...more });
  } catch {
    throw new ApiError(0, "the server does not answer");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let found = text;
  try {
    const read = JSON.parse(text);
    found = read.data?.message ?? read.message ?? text;
  } catch {
    // An answer that is no JSON comes from a proxy before the server.
  }
  if (answer.status === 401 && !path.startsWith("/page/")) end();
  throw new ApiError(answer.status, found || answer.statusText);
}

/**
 * Send a request and return what the JSON of its answer holds, null if it has none. Throws `ApiError`.
 * @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<any>}
 */
export async function request(method, path, body) {
  const answer = await send(method, path, body);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} path @returns {Promise<any>} */
export const get = (path) => request("GET", path);
/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const post = (path, body = {}) => request("POST", path, body);

/**
 * Return one page of a list, and the cursor of the next one: null at the end.
 * @param {string} path @returns {Promise<{ items: any[], next: string | null }>}
 */
export async function list(path) {
  const answer = await send("GET", path);
  return { items: await answer.json(), next: answer.headers.get("x-next-cursor") };
}

/** Return a path with a query; what is null or undefined is left out. @param {string} path @param {Record<string, any>} query */
export function withQuery(path, query) {
  const found = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  return found.length ? `${path}?${new URLSearchParams(found.map(([name, value]) => [name, String(value)]))}` : path;
}

// The login.

/**
 * Find out whether this page is logged in; `ticket` is what `instar open` gave it.
 * @param {string | null} ticket
 * @returns {Promise<{ needed: boolean, place: string, problem?: string }>}
 */
export async function begin(ticket) {
  const state = await get("/page/login");
  if (!state.needed) return state;
  try {
    if (ticket) {
      await logIn({ ticket });
      return { ...state, needed: false };
    }
    const reloaded = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    key = reloaded || localStorage.getItem(KEPT) || (await askOthers());
    if (!key) return state;
    const { key: further } = await post("/page/key");
    // A key that the device keeps stays the one of all its tabs.
    if (key !== localStorage.getItem(KEPT)) key = further;
    return { ...state, needed: false };
  } catch (error) {
    key = "";
    if (error instanceof ApiError && error.status === 401) forget();
    return { ...state, ...(ticket ? { problem: String(/** @type {Error} */ (error).message) } : {}) };
  }
}

/** @param {{ password: string, keep?: string } | { ticket: string }} given `keep`: the device stays logged in */
export async function logIn(given) {
  key = (await post("/page/login", given)).key;
  if ("keep" in given && mayKeep) localStorage.setItem(KEPT, key);
}

/** Whether a device may keep its login: not the machine itself, whose programs read what a browser keeps. */
export const mayKeep = !/^(localhost|127\..*|\[::1\])$/.test(location.hostname);

function forget() {
  key = "";
  localStorage.removeItem(KEPT);
}

export async function logOut() {
  await post("/page/logout");
  others.postMessage({ left: true });
  end();
}

function end() {
  forget();
  lost();
}

/** Let `then` be called when the login is over. @param {() => void} then */
export function onLost(then) {
  lost = then;
}

/** Another tab that is logged in hands its key on, from memory to memory. @returns {Promise<string>} */
function askOthers() {
  return new Promise((resolve) => {
    const nonce = crypto.getRandomValues(new Uint32Array(2)).join("-");
    /** @param {string} found */
    const done = (found) => {
      clearTimeout(timer);
      others.removeEventListener("message", heard);
      resolve(found);
    };
    /** @param {MessageEvent} message */
    const heard = (message) => message.data?.to === nonce && done(message.data.key);
    const timer = setTimeout(done, 400, "");
    others.addEventListener("message", heard);
    others.postMessage({ asks: nonce });
  });
}

others.addEventListener("message", async ({ data }) => {
  if (data?.left) end();
  else if (data?.shown && document.hidden) {
    rests = true;
    cut.abort();
  } else if (data?.asks && key) {
    const made = await post("/page/key").catch(() => null);
    if (made) others.postMessage({ to: data.asks, key: made.key });
  }
});

// A reload has 20 seconds to go on with the key; then the server knows it no more.
addEventListener("pagehide", () => {
  if (!key || key === localStorage.getItem(KEPT)) return;
  sessionStorage.setItem(KEPT, key);
  fetch("/page/leave", { method: "POST", keepalive: true, headers: { "X-Instar-Key": key } }).catch(() => {});
});
addEventListener("pageshow", (event) => event.persisted && location.reload());

// Events. A browser opens six connections to a server, in all its tabs; a stream takes one. So a tab that is hidden
// gives its own back when another one is shown.

let rests = false;
let wake = () => {};

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  rests = false;
  wake();
  others.postMessage({ shown: true });
});

/**
 * Follow the server's events until `stop` is aborted, and come back when the connection breaks.
 *
 * `heard` is called with each event, `connected` with what a new connection knows: "all" (nothing was missed), or
 * "some" (ask anew for what is shown), and with "none" while there is no connection.
 * @param {(event: Event) => void} heard
 * @param {(state: "all" | "some" | "none") => void} connected
 * @param {AbortSignal} stop
 */
export async function follow(heard, connected, stop) {
  let last = "";
  let pause = 250;
  if (!document.hidden) others.postMessage({ shown: true });
  stop.addEventListener("abort", () => cut.abort());
  while (!stop.aborted) {
    if (rests) {
      await new Promise((resolve) => {
        wake = () => resolve(null);
      });
    }
    cut = new AbortController();
    let quiet = setTimeout(() => cut.abort(), QUIET);
    try {
      const headers = { "X-Instar-Key": key, ...(last ? { "Last-Event-ID": last } : {}) };
      const answer = await send("GET", "/instar/event", undefined, { headers, signal: cut.signal });
      connected(answer.headers.get("Instar-Resumed") === "all" ? "all" : "some");
      pause = 250;
      for await (const message of messages(answer)) {
        clearTimeout(quiet);
        quiet = setTimeout(() => cut.abort(), QUIET);
        if (message.id) last = message.id;
        if (message.data) heard(JSON.parse(message.data));
      }
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return;
    } finally {
      clearTimeout(quiet);
    }
    if (stop.aborted) return;
    if (rests) continue;
    connected("none");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

/** The messages of a stream of server-sent events. @param {Response} answer */
async function* messages(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const whole = rest.split("\n\n");
    rest = whole.pop() ?? "";
    for (const text of whole) {
      const message = { id: "", data: "" };
      for (const line of text.split("\n")) {
        if (line.startsWith("data: ")) message.data += line.slice(6);
        else if (line.startsWith("id: ")) message.id = line.slice(4);
      }
      yield message;
    }
  }
}
