// @ts-check
/** What the page knows of sessions, messages and what waits for a person; events keep it as it is on the server. */

import * as api from "./api.js";
import { changed, say } from "./ui.js";

/** @typedef {Record<string, any>} Plain */
/** @typedef {{ info: Plain, parts: Plain[] }} Message */
/**
 * What is known of a session's messages: `earlier` is the cursor of those before, `missed` are the events that came while
 * the newest messages were asked for.
 * @typedef {{ messages: Map<string, Message>, earlier: string | null, loading: Promise<void> | null, missed: api.Event[] | null }} History
 */

const FIRST = 60; // messages that are loaded at once
const MORE = 300;

const state = {
  connection: "begin",
  mayLogOut: false,
  directory: /** @type {string | null} */ (null),
  sessions: /** @type {Map<string, Plain>} */ (new Map()),
  next: /** @type {string | null} */ (null),
  search: "",
  status: /** @type {Map<string, Plain>} */ (new Map()),
  asks: /** @type {Map<string, Plain>} */ (new Map()),
  histories: /** @type {Map<string, History>} */ (new Map()),
};

export const connection = () => state.connection;
export const directory = () => state.directory;

/** @param {string | null} path */
export function chooseDirectory(path) {
  state.directory = path || null;
  changed("sessions");
}

/** @param {boolean} [may] */
export function mayLogOut(may) {
  if (may !== undefined) state.mayLogOut = may;
  return state.mayLogOut;
}

/** Follow the server until `stop` is aborted. @param {AbortSignal} stop */
export function begin(stop) {
  const connected = (/** @type {string} */ how) => {
    state.connection = how;
    changed("connection");
    if (how === "some") reload();
  };
  api.follow(take, connected, stop);
}

/** Ask for all that is shown anew. */
async function reload() {
  const open = [...state.histories].map(([id, found]) => refresh(id, found));
  await Promise.allSettled([loadSessions(state.search), loadWaiting(), ...open]);
}

// Sessions.

/** The sessions that stand in the list, those that wait for an answer first. */
export function sessions() {
  const roots = [...state.sessions.values()].filter((one) => !one.parentID && !one.time.archived);
  const found = state.search ? roots.filter((one) => one.found) : roots;
  return found.sort((a, b) => Number(waits(b.id)) - Number(waits(a.id)) || b.time.updated - a.time.updated);
}

/** @param {string} id */
export const session = (id) => state.sessions.get(id);
/** @param {string} id @returns {"idle" | "busy" | "retry"} */
export const status = (id) => state.status.get(id)?.type ?? "idle";
/** @param {string} id */
export const statusOf = (id) => state.status.get(id);
/** The folders of the sessions that are known, for a new one; the server's own is the empty one. */
export function folders() {
  const found = new Set([...state.sessions.values()].map((one) => one.directory));
  if (state.directory) found.add(state.directory);
  return [...found].filter(Boolean).sort();
}
export const hasMore = () => state.next !== null;

/** Load the first sessions whose title holds `search`, of all projects. @param {string} search */
export async function loadSessions(search) {
  state.search = search;
  const { items, next } = await api.list(
    api.withQuery("/experimental/session", { roots: true, search: search || null, limit: 50 }),
  );
  if (state.search !== search) return;
  for (const one of state.sessions.values()) one.found = false;
  keep(items, next);
}

export async function loadMore() {
  const query = { roots: true, search: state.search || null, limit: 50, cursor: state.next };
  const { items, next } = await api.list(api.withQuery("/experimental/session", query));
  keep(items, next);
}

/** @param {Plain[]} items @param {string | null} next */
function keep(items, next) {
  for (const one of items) state.sessions.set(one.id, { ...one, found: true });
  state.next = next;
  changed("sessions");
}

/** Get a session, also one of a sub-agent, which is in no list. @param {string} id */
export async function loadSession(id) {
  const found = await api.get(`/session/${id}`);
  state.sessions.set(id, { ...state.sessions.get(id), ...found });
  changed("sessions");
  changed(id);
}

// What waits for a person.

/** The calls and questions that wait, oldest first; of one session and its sub-agents, if it is named. @param {string} [id] */
export function asks(id) {
  const all = [...state.asks.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return id ? all.filter((one) => isWithin(one.sessionID, id)) : all;
}

/** @param {string} id */
export const waits = (id) => asks(id).length > 0;

/** @param {string | undefined} id @param {string} root @returns {boolean} */
const isWithin = (id, root) => Boolean(id) && (id === root || isWithin(state.sessions.get(id ?? "")?.parentID, root));

/** Learn what waits and what works in all directories that the server has open. */
async function loadWaiting() {
  const found = await api.get("/instar/waiting");
  state.asks = new Map([...found.permissions, ...found.questions].map((one) => [one.id, one]));
  state.status = new Map(Object.entries(found.status));
  for (const one of state.asks.values())
    if (!state.sessions.has(one.sessionID)) loadSession(one.sessionID).catch(() => {});
  for (const one of state.histories.keys()) changed(one);
  changed("asks");
  changed("sessions");
}

// What was written and not sent yet.

/** @type {Map<string, { text: string, files: Plain[] }>} */
const written = new Map();

/** @param {string} id */
export const drafts = (id) => written.get(id) ?? { text: "", files: [] };

/** Keep what is written to a session; without `files` those stay. @param {string} id @param {string} text @param {Plain[]} [files] */
export function draft(id, text, files = drafts(id).files) {
  written.set(id, { text, files });
  changed(`draft ${id}`);
}

// Messages.

/** @param {string} id */
export const history = (id) => state.histories.get(id);
/** @param {History} found */
export const messagesOf = (found) =>
  [...found.messages.values()].sort(
    (a, b) => a.info.time.created - b.info.time.created || (a.info.id < b.info.id ? -1 : 1),
  );

/** Load a session's newest messages, once. @param {string} id */
export async function loadHistory(id) {
  const known = state.histories.get(id);
  if (known) return known.loading;
  const made = /** @type {History} */ ({ messages: new Map(), earlier: null, loading: null, missed: null });
  state.histories.set(id, made);
  try {
    await Promise.all([refresh(id, made), loadSession(id)]);
  } catch (error) {
    state.histories.delete(id);
    throw error;
  }
}

/** Load a session's newest messages in place of those that are known. @param {string} id @param {History} found */
function refresh(id, found) {
  found.missed = [];
  return load(id, found, null, (items) => {
    found.messages = new Map(items.map((one) => [one.info.id, one]));
    for (const event of found.missed ?? []) TAKES[event.type]?.(event.properties);
  }).finally(() => {
    found.missed = null;
  });
}

/** Load the messages before those that are known. @param {string} id */
export async function loadEarlier(id) {
  const found = state.histories.get(id);
  if (!found?.earlier || found.loading) return;
  await load(id, found, found.earlier, (items) => {
    for (const one of items) found.messages.set(one.info.id, one);
  });
}

/** @param {string} id @param {History} found @param {string | null} before @param {(items: Message[]) => void} put */
function load(id, found, before, put) {
  const query = { limit: before ? MORE : FIRST, before };
  const work = api.list(api.withQuery(`/session/${id}/message`, query)).then(({ items, next }) => {
    put(items);
    found.earlier = next;
    changed(id);
  });
  found.loading = work.finally(() => {
    found.loading = null;
  });
  return found.loading;
}

// Events.

/** @type {Record<string, (properties: Plain) => void>} */
const TAKES = {
  "session.created": ({ info }) => keepSession(info),
  "session.updated": ({ info }) => keepSession(info),
  "session.deleted": ({ info }) => {
    state.sessions.delete(info.id);
    state.histories.delete(info.id);
    changed("sessions");
    changed(info.id);
  },
  "session.status": ({ sessionID, status }) => {
    if (status.type === "idle") state.status.delete(sessionID);
    else state.status.set(sessionID, status);
    changed("sessions");
    changed(sessionID);
  },
  "session.error": ({ sessionID, error }) => {
    if (state.histories.has(sessionID) && error?.name !== "MessageAbortedError")
      say(String(error?.data?.message ?? error?.name));
    changed(sessionID);
  },
  "message.updated": ({ sessionID, info }) => {
    const found = state.histories.get(sessionID ?? info.sessionID);
    if (!found) return;
    const old = found.messages.get(info.id);
    found.messages.set(info.id, { info, parts: old?.parts ?? [] });
    changed(sessionID ?? info.sessionID);
    changed(info.id);
  },
  "message.removed": ({ sessionID, messageID }) => {
    if (state.histories.get(sessionID)?.messages.delete(messageID)) changed(sessionID);
  },
  "message.part.updated": ({ part }) => {
    const message = state.histories.get(part.sessionID)?.messages.get(part.messageID);
    if (!message) return;
    const index = message.parts.findIndex((one) => one.id === part.id);
    if (index < 0) {
      message.parts = [...message.parts, part];
      changed(part.messageID);
    } else {
      message.parts[index] = part;
      changed(part.id);
    }
  },
  "message.part.delta": ({ sessionID, messageID, partID, field, delta }) => {
    const parts = state.histories.get(sessionID)?.messages.get(messageID)?.parts;
    const index = parts?.findIndex((one) => one.id === partID) ?? -1;
    if (!parts || index < 0) return;
    parts[index] = { ...parts[index], [field]: (parts[index]?.[field] ?? "") + delta };
    changed(partID);
  },
  "message.part.removed": ({ sessionID, messageID, partID }) => {
    const message = state.histories.get(sessionID)?.messages.get(messageID);
    if (!message) return;
    message.parts = message.parts.filter((one) => one.id !== partID);
    changed(messageID);
  },
  "permission.asked": (asked) => ask(asked),
  "question.asked": (asked) => ask(asked),
  "permission.replied": ({ requestID, sessionID }) => answered(requestID, sessionID),
  "question.replied": ({ requestID, sessionID }) => answered(requestID, sessionID),
  "question.rejected": ({ requestID, sessionID }) => answered(requestID, sessionID),
  "todo.updated": ({ sessionID, todos }) => {
    state.sessions.set(sessionID, { ...state.sessions.get(sessionID), todos });
    changed(sessionID);
  },
};

/** @type {Set<(event: api.Event) => void>} */
const hearers = new Set();

/** Hear every event too; returns what ends that. @param {(event: api.Event) => void} hearer */
export function hear(hearer) {
  hearers.add(hearer);
  return () => void hearers.delete(hearer);
}

/** @param {api.Event} event */
function take(event) {
  const { sessionID, info, part } = event.properties;
  const missed = state.histories.get(sessionID ?? info?.sessionID ?? part?.sessionID)?.missed;
  if (!missed || !event.type.startsWith("message.")) TAKES[event.type]?.(event.properties);
  // The answer that is waited for may hold a delta already: the part comes as a whole when it is finished.
  else if (event.type !== "message.part.delta") missed.push(event);
  for (const hearer of hearers) hearer(event);
}

/** @param {Plain} info */
function keepSession(info) {
  state.sessions.set(info.id, { found: !state.search, ...state.sessions.get(info.id), ...info, revert: info.revert });
  changed("sessions");
  changed(info.id);
}

/** @param {Plain} asked */
function ask(asked) {
  state.asks.set(asked.id, asked);
  if (!state.sessions.has(asked.sessionID)) loadSession(asked.sessionID).catch(() => {});
  changedAsks(asked.sessionID);
}

/** @param {string} id @param {string} sessionID */
function answered(id, sessionID) {
  state.asks.delete(id);
  changedAsks(sessionID);
}

/** @param {string} sessionID */
function changedAsks(sessionID) {
  changed("asks");
  changed("sessions");
  changed(sessionID);
  const parent = state.sessions.get(sessionID)?.parentID;
  if (parent) changedAsks(parent);
}
