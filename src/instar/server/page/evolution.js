// @ts-check
/** The evolution: the timeline of what the agent changed of itself, and what it comes to. */

import {
  html,
  useState,
  useEffect,
  useTopic,
  useMemo,
  cls,
  duration,
  number,
  say,
  shortPath,
  Time,
  Problem,
} from "./ui.js";
import * as store from "./store.js";
import * as evolve from "./evolve.js";
import { Change, Compare, Order, SourceFile, Waiting } from "./change.js";
import { Bars, Graph } from "./plot.js";

/** @typedef {evolve.Plain} Plain */

/** The words for what became of a change, and the class of its mark. */
export const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({
  installed: ["installed", "good"],
  refused: ["refused", "bad"],
  waits: ["waits for you", "warn"],
  decided: ["waited for you", "plain"],
  "taken back": ["installed, then rolled back", "plain"],
  "rolled back": ["rolled back", "warn"],
  kept: ["passed its probation", "good"],
  approved: ["approved", "good"],
  rejected: ["rejected", "bad"],
  departed: ["changed behind the gate", "bad"],
  accepted: ["accepted by a person", "plain"],
  changed: ["other files", "plain"],
});
const PLACES = /** @type {Record<string, any>} */ ({ change: Change, compare: Compare, file: SourceFile });

/** @param {{ words: string[] }} props */
export function Evolution({ words }) {
  const [kind = "", ...rest] = words;
  useTopic("evolution");
  useTopic("reloaded");
  const directory = store.directory();
  useEffect(() => evolve.follow(told), [directory]);
  const { status, error } = evolve.found();
  if (error && !status)
    return html`<div class="evo-none"><h1>Evolution</h1><${Problem} text=${error} />
    <p>An agent changes itself where evolve has a workspace: <code>instar init FOLDER</code> makes one, <code>instar serve --workspace FOLDER</code> uses it.</p></div>`;
  if (!status) return html`<p class="empty">Loading …</p>`;
  const Place = PLACES[kind];
  return html`<div class=${cls("evo", Place && "one")}>
    <${Timeline} current=${kind === "change" ? (rest[0] ?? "") : ""} />
    <div class="detail">${Place ? html`<a class="back" href="#/evolution">← All of the evolution</a><${Place} words=${rest} />` : html`<${Summary} />`}</div>
  </div>`;
}

/** Say what just happened. @param {{ type: string, properties: Plain }} event */
function told({ type, properties }) {
  const { files = [], file = "", stage } = properties;
  if (type === "evolve.installed") say(`Installed: ${files.join(", ")}`);
  if (type === "evolve.refused")
    say(stage === "authority" ? `A change of ${file} waits for you` : `Refused at ${stage}: ${file}`);
  if (type === "evolve.rolledback") say(`Rolled back: ${files.join(", ")}`);
}

// The timeline.

/** @param {{ current: string }} props */
function Timeline({ current }) {
  const [filter, setFilter] = useState({ file: "", session: "", outcome: "" });
  const { changes, problems } = evolve.found();
  const files = choices(changes.flatMap((one) => one.files ?? []).filter(isGuarded));
  const sessions = choices(changes.map((one) => one.session));
  const shown = changes.filter(
    (one) =>
      (!filter.file || one.files?.includes(filter.file)) &&
      (!filter.session || one.session === filter.session) &&
      (!filter.outcome || evolve.outcome(one) === filter.outcome),
  );
  useEffect(() => {
    for (const id of sessions) if (!store.session(id)) store.loadSession(id).catch(() => {});
  }, [sessions.join()]);
  useTopic("sessions");
  /** @param {string} name @param {string} label @param {[string, string][]} options */
  const choice = (name, label, options) => html`<label>${label}
    <select value=${/** @type {Plain} */ (filter)[name]} onChange=${(/** @type {any} */ event) => setFilter({ ...filter, [name]: event.target.value })}>
      <option value="">all</option>${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
    </select></label>`;
  return html`<section class="timeline" aria-label="Timeline" onKeyDown=${step}>
    <div class="filters">
      ${choice(
        "file",
        "Script or prompt",
        files.map((one) => [one, one]),
      )}
      ${choice(
        "session",
        "Session",
        sessions.map((id) => [id, store.session(id)?.title ?? id]),
      )}
      ${choice(
        "outcome",
        "Outcome",
        choices(changes.map(evolve.outcome)).map((one) => [one, word(one)]),
      )}
    </div>
    ${problems.map((text) => html`<${Problem} text=${text} />`)}
    ${shown.length === 0 && html`<p class="empty">${changes.length ? "No change is like that." : "Nothing has changed yet. What the agent changes of itself appears here by itself."}</p>`}
    ${days(shown).map(
      ([day, those]) => html`<h2 key=${day} class="day">${day}</h2>
      <ol class="line">${those.map((one) => html`<${Row} key=${keyOf(one)} change=${one} isCurrent=${Boolean(current) && evolve.nameOf(one) === current} />`)}</ol>`,
    )}
    ${evolve.mayHaveMore() && html`<button type="button" onClick=${evolve.loadMore}>Show older changes</button>`}
  </section>`;
}

/** @param {{ change: Plain, isCurrent: boolean }} props */
function Row({ change, isCurrent }) {
  const name = evolve.nameOf(change);
  const kind = evolve.outcome(change);
  const [, mark] = OUTCOMES[kind] ?? ["", "plain"];
  const isNew = change.time > evolve.found().since;
  const body = html`<span class="what"><span class=${`outcome ${mark}`}>${word(kind)}</span> ${change.epoch != null && html`<span class="epoch">version ${change.epoch}</span>`}
      <${Time} time=${change.time} /></span>
    <span class="title">${titleOf(change)}</span>
    <span class="facts">${sentence(change)}</span>
    <span class="facts">${[byWhom(change), change.cost ? `the gate took ${duration(change.cost)}` : ""].filter(Boolean).join(" · ")}</span>`;
  return html`<li class=${cls(`k-${mark}`, kind === "changed" && "small", isNew && "new")}>
    ${name ? html`<a href=${evolve.link("change", name)} aria-current=${isCurrent ? "true" : null}>${body}</a>` : html`<div>${body}</div>`}
  </li>`;
}

/** j and k go from change to change. @param {KeyboardEvent} event */
function step(event) {
  const move = { j: 1, k: -1 }[event.key];
  if (!move || event.ctrlKey || event.metaKey || event.altKey || !(event.currentTarget instanceof Element)) return;
  if (event.target instanceof Element && event.target.matches("select, input")) return;
  const links = [...event.currentTarget.querySelectorAll("li > a")];
  const at = links.indexOf(/** @type {Element} */ (document.activeElement));
  const next = /** @type {HTMLElement | undefined} */ (links[at + move]);
  next?.focus();
  event.preventDefault();
}

/** @param {Plain[]} changes @returns {[string, Plain[]][]} */
function days(changes) {
  /** @type {Map<string, Plain[]>} */
  const found = new Map();
  const today = new Date().toDateString();
  for (const one of changes) {
    const date = new Date(one.time);
    const day =
      date.toDateString() === today
        ? "Today"
        : date.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
    found.set(day, [...(found.get(day) ?? []), one]);
  }
  return [...found];
}

/** @param {Plain} change */
function titleOf({ files = [], subject = "" }) {
  return files.length > 3 ? `${files.length} files` : files.join(", ") || subject;
}

/** What a change says of itself in a line. @param {Plain} change */
function sentence(change) {
  const [first = ""] = (change.text ?? "").split("\n");
  if (change.kind === "refused")
    return change.stage === "authority" ? first.replace(/^.*?: (- )?/, "") : `at the stage ${change.stage}: ${first}`;
  if (change.kind === "changed")
    return change.tool || (change.subject === "initial" ? "the first version" : change.subject);
  if (change.rolls_back)
    return evolve.rolledBack(change) ? `takes version ${evolve.rolledBack(change)?.epoch} back` : change.cause;
  return first || (change.subject ?? "");
}

/** Who made a change, and in which session. @param {Plain} change */
function byWhom(change) {
  const title = change.session && store.session(change.session)?.title;
  const within = title ? ` in “${title}”` : "";
  if (change.by === "person")
    return change.kind === "installed" && change.session
      ? `by the agent${within}, approved by a person`
      : "by a person";
  return `${change.by === "agent" ? "by the agent" : "by instar"}${within}`;
}

/** @param {string} kind */
export const word = (kind) => OUTCOMES[kind]?.[0] ?? kind;
/** @param {Plain} change */
const keyOf = (change) => evolve.nameOf(change) || `${change.time}${change.kind}${change.files}`;
/** @param {string} file */
const isGuarded = (file) => /^(hooks|prompts|config|tests|evals)\//.test(file);
/** @param {(string | undefined)[]} values @returns {string[]} */
const choices = (values) => /** @type {string[]} */ ([...new Set(values)].filter(Boolean)).sort();

// The summary.

function Summary() {
  const { status, waiting, pins, calls, changes } = evolve.found();
  const learned = changes
    .filter((one) => one.kind === "installed" && one.by !== "instar" && !evolve.takenBack(one))
    .slice(0, 12);
  const last = changes.find((one) => evolve.outcome(one) === "installed");
  return html`<h1>What the agent made of itself</h1>
    <p class="facts"><span title=${status?.workspace}>${shortPath(status?.workspace ?? "")}</span> · version ${status?.epoch ?? "–"} · scripts held at the level ${status?.level ?? "unknown"}</p>
    <button type="button" class="down" onClick=${() => document.querySelector(".timeline")?.scrollIntoView()}>To the timeline</button>
    <${Problem} text=${status?.frozen ?? ""} />
    ${(status?.problems ?? []).filter((/** @type {string} */ one) => one !== status?.frozen).map((/** @type {string} */ one) => html`<p class="note">${one}</p>`)}
    ${waiting.length > 0 && html`<section aria-labelledby="waits"><h2 id="waits">Waits for you</h2>${waiting.map((one) => html`<${Waiting} key=${one.id} entry=${one} />`)}</section>`}
    <section aria-labelledby="learned"><h2 id="learned">What it learned</h2>
      ${learned.length ? html`<ul class="learned">${learned.map((one) => html`<${Lesson} key=${one.commit} change=${one} />`)}</ul>` : html`<p class="muted">Nothing yet.</p>`}
      ${last && html`<p class="orders"><${Order} kind="rollback" change=${last} label="Take the newest change back" /></p>`}
    </section>
    <section aria-labelledby="probation"><h2 id="probation">On probation</h2>${trials(status)}</section>
    <section aria-labelledby="graph"><h2 id="graph">Versions</h2><${Graph} changes=${changes} />
      <p><a href="#/evolution/compare">Compare two versions</a>${(status?.scripts ?? []).map((/** @type {Plain} */ one) => html` · <a href=${evolve.link("file", one.file)}>${one.file} line by line</a>`)}</p></section>
    ${calls.length > 0 && html`<section aria-labelledby="calls"><h2 id="calls">How its scripts do</h2><${Calls} calls=${calls} /><${Tools} scripts=${status?.scripts ?? []} /></section>`}
    ${
      pins.length > 0 &&
      html`<section aria-labelledby="pins"><h2 id="pins">Pinned: the agent may not change these</h2>
      <ul>${pins.map((one) => html`<li><code>${one.file}</code> ${one.by === "settings" ? html`<span class="muted">by the settings</span>` : html`<${Order} kind="unpin" file=${one.file} label="Unpin" />`}</li>`)}</ul></section>`
    }`;
}

/** @param {{ change: Plain }} props */
function Lesson({ change }) {
  return html`<li><strong>${change.files.join(", ")}</strong>: ${change.text || change.subject}
    <span class="facts"><a href=${evolve.link("change", evolve.nameOf(change))}>What changed, and why it was let in</a> ${byWhom(change)} <${Time} time=${change.time} /></span></li>`;
}

/** @param {Plain | null} status */
function trials(status) {
  const found = Object.entries(status?.probation ?? {});
  if (!found.length)
    return html`<p class="muted">Nothing: each version that runs has passed, or is a person's own.</p>`;
  return html`<p class="muted">The first calls of a new version are watched. If they fail as those before it did not, it is taken back by itself.</p>
    <dl class="trials">${found.map(([file, said]) => html`<div><dt>${file}</dt><dd>${String(said).replace(/^on probation: /, "")}${bar(String(said))}</dd></div>`)}</dl>`;
}

/** How far a trial is. @param {string} said */
function bar(said) {
  const [, done, all] = /(\d+) of (\d+) calls/.exec(said) ?? [];
  return all && html`<progress max=${all} value=${done} aria-label="calls of the trial"></progress>`;
}

/** @param {{ calls: Plain[] }} props */
function Calls({ calls }) {
  const scripts = useMemo(() => choices(calls.map((one) => one.script)), [calls]);
  return html`<p class="muted">The newest calls of each hook, at most those that the gate plays again.</p>
    <div class="wide" tabindex="0" role="region" aria-label="Calls of scripts"><table class="figures">
      <thead><tr><th scope="col">Script</th><th scope="col">Hook</th><th scope="col">Calls</th><th scope="col">Failed</th><th scope="col">Median</th><th scope="col">Slowest</th><th scope="col">Last</th></tr></thead>
      <tbody>${scripts.map((/** @type {string} */ script) =>
        calls
          .filter((one) => one.script === script)
          .map(
            (one, at) => html`<tr>
        <th scope="row">${at === 0 ? script : html`<span class="unseen">${script}</span>`}</th><td>${one.hook}</td><td>${one.calls}</td>
        <td class=${cls(failures(one) && "bad")}>${failures(one) || "0"}</td><td>${duration(one.median)}</td><td>${duration(one.slowest)}</td><td><${Time} time=${one.last} /></td></tr>`,
          ),
      )}</tbody>
    </table></div>`;
}

/** How often the model called the tools that it has of its scripts. @param {{ scripts: Plain[] }} props */
function Tools({ scripts }) {
  const { tools } = evolve.found();
  const rows = scripts
    .flatMap((one) => one.tools)
    .map((name) => ({ name, value: tools[name] ?? 0, words: number(tools[name] ?? 0) }));
  return rows.length
    ? html`<${Bars} label="Calls of its tools by the model, in the last 30 days" rows=${rows} />`
    : null;
}

/** The calls that went wrong, by kind; a hook that a script does not know is no failure. @param {Plain} call */
const failures = (call) =>
  Object.entries(call.failed)
    .filter(([kind]) => kind !== "unknown")
    .map(([kind, count]) => `${count} ${kind}`)
    .join(", ");
