// @ts-check
/** What the page knows of a workspace that changes itself, and what a person orders there. Nothing here is shown. */

import * as api from "./api.js";
import * as store from "./store.js";
import { changed } from "./ui.js";

/** @typedef {Record<string, any>} Plain */

const PAGE = 100;
const TOPIC = "evolution";
/** Events after which something else may stand on the page: a change, a file that was committed, a turn with its calls. */
const EVENTS = /^(evolve\.|file\.edited$|session\.idle$)/;

const state = {
  status: /** @type {Plain | null} */ (null),
  changes: /** @type {Plain[]} */ ([]),
  waiting: /** @type {Plain[]} */ ([]),
  pins: /** @type {Plain[]} */ ([]),
  calls: /** @type {Plain[]} */ ([]),
  tools: /** @type {Record<string, number>} */ ({}),
  problems: /** @type {string[]} */ ([]),
  error: "",
  shown: PAGE,
  since: Date.now(),
};

export const found = () => state;

/** A path of the server's for the directory that the page shows. @param {string} path @param {Plain} [query] */
export const at = (path, query = {}) => api.withQuery(path, { ...query, directory: store.directory() });

/** Load all that stands on the page. What cannot be had is said in `error`; what was known stays. */
export async function load() {
  try {
    const [status, log, waiting, pins, calls, stats] = await Promise.all([
      api.get(at("/instar/evolve")),
      api
        .get(at("/instar/evolve/log", { limit: state.shown }))
        .catch((error) => ({ changes: [], problems: [String(error.message)] })),
      api.get(at("/instar/evolve/candidate")),
      api.get(at("/instar/evolve/pin")),
      api.get(at("/instar/evolve/call")),
      api.get("/instar/stats?tools=true&days=30"),
    ]);
    Object.assign(state, {
      status,
      changes: log.changes,
      problems: log.problems,
      waiting: waiting.entries,
      pins,
      calls,
      tools: stats.tools,
      error: "",
    });
  } catch (error) {
    state.error = String(/** @type {Error} */ (error).message);
  }
  changed(TOPIC);
}

/** Show older changes too. */
export function loadMore() {
  state.shown = Math.min(state.shown + PAGE, 1000);
  return load();
}
export const mayHaveMore = () => state.changes.length >= state.shown && state.shown < 1000;

/** Keep what is known as it is on the server; returns what ends that. `told` hears of each event of evolve. @param {(event: api.Event) => void} told */
export function follow(told) {
  let timer = 0;
  state.since = Date.now();
  load();
  const stop = store.hear((event) => {
    if (!EVENTS.test(event.type)) return;
    told(event);
    clearTimeout(timer);
    timer = setTimeout(load, 150);
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}

/** The address of a view of the evolution. @param {...(string | number)} words */
export const link = (...words) =>
  `#/evolution/${words
    .flatMap((one) => String(one).split("/"))
    .map(encodeURIComponent)
    .join("/")}`;

// One change.

/** What names a change in the page's address, "" for one of which nothing more is known. @param {Plain} change */
export const nameOf = (change) => change.commit?.slice(0, 12) || change.report || "";

/** @param {string} name */
export const changeOf = (name) =>
  state.changes.find((one) => one.report === name || (name.length >= 7 && one.commit?.startsWith(name)));

/** What became of a change, in a word. @param {Plain} change */
export function outcome(change) {
  if (change.kind === "refused" && change.stage === "authority") return waits(change) ? "waits" : "decided";
  if (change.kind === "installed" && takenBack(change)) return "taken back";
  return change.kind;
}

/** The change that took this one back. @param {Plain} change */
export const takenBack = (change) =>
  change.commit && state.changes.find((one) => one.rolls_back?.length >= 7 && change.commit.startsWith(one.rolls_back));

/** The change that this one takes back. @param {Plain} change */
export const rolledBack = (change) =>
  state.changes.find((one) => change.rolls_back?.length >= 7 && one.commit?.startsWith(change.rolls_back));

/** The candidate that waits for a person and was proposed by this call. @param {Plain} change */
export const waits = (change) =>
  state.waiting.find((one) => (change.text ?? "").includes(one.id) && change.files?.includes(one.proposal.file));

/** The version before a change, as far as it is known. @param {Plain} change */
export function before(change) {
  const commits = state.changes.filter((one) => one.commit);
  return commits[commits.indexOf(change) + 1];
}

/** The pin that keeps the agent from a file. @param {string} file */
export const pinOf = (file) => state.pins.find((one) => file === one.file || file.startsWith(`${one.file}/`));

/** @param {string} path @param {Plain} [query] */
const ask = (path, query) => api.get(at(`/instar/evolve/${path}`, query));
/** @param {string} id */
export const report = (id) => ask(`report/${id}`);
/** @param {string} ref */
export const show = (ref) => ask(`log/${ref}`);
/** @param {string} old @param {string} now @param {string} [file] */
export const compare = (old, now, file = "") => ask("compare", { old, new: now, file });
/** @param {string} file */
export const blame = (file) => ask("blame", { file });
/** @param {string} file @param {number} line */
export const why = (file, line) => ask("why", { file, line });

/** The message by which a session asked for a change, and the prompt before it; null where they are gone. @param {Plain} cause */
export async function asked(cause) {
  if (!cause.session || !cause.message) return null;
  try {
    const step = await api.get(`/session/${cause.session}/message/${cause.message}`);
    const parent = step.info.parentID;
    const prompt = parent ? await api.get(`/session/${cause.session}/message/${parent}`) : null;
    return { step, prompt };
  } catch {
    return null;
  }
}

// Orders.

/** @param {() => Promise<any>} work */
async function order(work) {
  const answer = await work();
  await load();
  return answer;
}
/** @param {string} ref */
export const rollBack = (ref) => order(() => api.post(at("/instar/evolve/rollback"), { ref }));
/** @param {string} file */
export const pin = (file) => order(() => api.post(at("/instar/evolve/pin"), { file }));
/** @param {string} file */
export const unpin = (file) => order(() => api.request("DELETE", at("/instar/evolve/pin", { file })));
/** @param {string} id */
export const approve = (id) => order(() => api.post(at(`/instar/evolve/candidate/${id}/approve`)));
/** @param {string} id @param {string} reason */
export const reject = (id, reason) => order(() => api.post(at(`/instar/evolve/candidate/${id}/reject`), { reason }));
