// @ts-check
/** One change of the evolution in full, what a person orders of it, and two versions beside each other. */

import {
  html,
  useState,
  useEffect,
  useLoaded,
  cls,
  duration,
  money,
  number,
  say,
  Diff,
  Dialog,
  Problem,
  Time,
} from "./ui.js";
import * as evolve from "./evolve.js";

/** @typedef {evolve.Plain} Plain */

const STAGES = ["parse", "test", "replay", "score", "authority"];
const ABOUT = /** @type {Record<string, string>} */ ({
  parse: "Does it start, and register its tools?",
  test: "Does its test pass, in a sandbox?",
  replay: "Does it answer past calls as the version before?",
  score: "Is it no worse by the evals?",
  authority: "Does it reach no more than it was granted?",
});

/** The words for what became of changes, and the class of their mark. */
export const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({
  installed: ["installed", "good"],
  refused: ["refused", "bad"],
  "passed over": ["passed over", "plain"],
  waits: ["waits for you", "warn"],
  decided: ["waited for you", "plain"],
  "taken back": ["installed, then taken back", "plain"],
  "rolled back": ["taken back", "warn"],
  kept: ["passed its probation", "good"],
  approved: ["approved", "good"],
  rejected: ["rejected", "bad"],
  departed: ["changed behind the gate", "bad"],
  accepted: ["accepted by a person", "plain"],
  changed: ["other files", "plain"],
});

/** @param {string} kind */
export const word = (kind) => OUTCOMES[kind]?.[0] ?? kind;

/** What became of a change, in words. @param {Plain} change */
export function titleOf(change) {
  const back = evolve.rolledBack(change);
  return back?.epoch != null ? `takes back version ${back.epoch}` : word(evolve.outcome(change));
}

/** Focus the heading of a view, and show it from its top, once it is there. @param {boolean} isThere */
function useHeading(isThere) {
  useEffect(() => {
    if (!isThere) return;
    document.querySelector(".detail")?.scrollIntoView();
    /** @type {HTMLElement | null} */ (document.querySelector(".detail h1"))?.focus({ preventScroll: true });
  }, [isThere]);
}

/** @param {{ words: string[] }} props */
export function Change({ words: [name = ""] }) {
  const change = evolve.changeOf(name);
  const { value, error } = useLoaded(
    () => load(name, change),
    [name, Boolean(change), change && evolve.outcome(change)],
  );
  useHeading(Boolean(value));
  if (error) return html`<${Problem} text=${error} />`;
  if (!value) return html`<p class="empty">Loading …</p>`;
  const { report, shown, asked } = value;
  const about = change ??
    shown?.change ?? { kind: report.outcome, files: [report.file], text: report.text, time: report.time, report: name };
  const kind = evolve.outcome(about);
  const entry = evolve.waits(about);
  const expect = prediction(about, report);
  const diff = report?.diff || shown?.diff || "";
  return html`<article class="change" aria-labelledby="change">
    <h1 id="change" tabindex="-1">${(about.files ?? []).join(", ") || about.subject}</h1>
    <p class="facts"><span class=${`outcome ${OUTCOMES[kind]?.[1] ?? "plain"}`}>${titleOf(about)}</span> ${about.epoch != null && `version ${about.epoch}`} <${Time} time=${about.time} />
      ${about.commit && html`<code>${about.commit.slice(0, 10)}</code>`}</p>
    <${Lead} change=${about} entry=${entry} raised=${report?.raised ?? []} />
    <${Orders} change=${about} entry=${entry} kind=${kind} />
    <h2>What changed</h2>
    ${diff ? html`<${Diff} patch=${diff} />` : html`<p class="muted">No diff was kept.</p>`}
    ${shown?.cut > 0 && html`<p class="muted">${number(shown.cut)} more characters: git show ${about.commit}</p>`}
    ${report && html`<${Gate} report=${report} isWaiting=${Boolean(entry)} />`}
    ${!report && about.gate?.length > 0 && html`<h2>What the gate said</h2><ul>${about.gate.map((/** @type {string} */ line) => html`<li>${line}</li>`)}</ul>`}
    ${!report && about.stage && html`<h2>Why it was refused at ${about.stage}</h2><pre tabindex="0">${about.text}</pre>`}
    ${expect && html`<h2>What it predicted</h2><${Prediction} expect=${expect} file=${about.files?.[0]} />`}
    <${Cause} change=${about} report=${report} asked=${asked} />
    <${Later} change=${about} events=${shown?.events ?? []} />
  </article>`;
}

/** @param {string} name @param {Plain | undefined} change */
async function load(name, change) {
  const id = change?.report ?? (name.length === 8 && !change ? name : "");
  const [report, shown] = await Promise.all([
    id ? evolve.report(id).catch(() => null) : null,
    change?.commit ? evolve.show(change.commit) : id ? null : evolve.show(name),
  ]);
  if (!report && !shown && !change) throw new Error(`nothing is known of ${name} any more`);
  return { report, shown, asked: report ? await evolve.asked(report.cause) : null };
}

/** What became of a change, in a sentence. @param {{ change: Plain, entry: Plain | undefined, raised: string[] }} props */
function Lead({ change, entry, raised }) {
  const [first] = (change.text ?? "").split("\n");
  if (change.rolls_back)
    return html`<p class="lead">It takes back <a href=${evolve.link("change", change.rolls_back.slice(0, 12))}>${numberOf(change)}</a>: ${change.cause || "a person asked for it"}.</p>`;
  if (change.kind !== "refused") return first && html`<p class="lead">${first}</p>`;
  if (change.stage !== "authority") return html`<p class="lead">Refused at the stage ${change.stage}: ${first}</p>`;
  const decided = evolve.decision(change);
  return html`${
    decided
      ? html`<p class="lead">It waited, and was ${decided.kind} <${Time} time=${decided.time} /> ${decided.text.replace(/^\w+ /, "")}.</p>`
      : !entry && html`<p class="lead">It waited for you, and does so no more.</p>`
  }
    ${entry && html`<${Stale} entry=${entry} />`}
    <p>It passed its trials. A person has to allow:</p><ul>${raised.map((one) => html`<li>${one}</li>`)}</ul>`;
}

/** Why a candidate cannot be approved any more. @param {{ entry: Plain }} props */
const Stale = ({ entry }) =>
  evolve.isStale(entry) &&
  html`<p class="note">Out of date: ${entry.proposal.file} changed since. Reject it; the agent may propose it again.</p>`;

// What the gate found.

/** @param {{ report: Plain, isWaiting: boolean }} props */
function Gate({ report, isWaiting }) {
  const refused = report.outcome === "refused";
  const passed = new Map((report.stages ?? []).map((/** @type {Plain} */ one) => [one.name, one]));
  const title = {
    installed: "Why it was let in",
    refused: "Why it was refused",
    "passed over": "Why another one was preferred",
    waits: isWaiting ? "Why it waits" : "Why it waited",
  }[/** @type {string} */ (report.outcome)];
  return html`<h2>${title}</h2>
    <ol class="stages">${STAGES.map((stage) => {
      const one = passed.get(stage);
      const failed = refused && report.stage === stage;
      const state = failed ? "bad" : !one ? "plain" : isUnlike(report, stage) ? "warn" : "good";
      return html`<li class=${`stage ${state}`}><span class="name">${stage}</span><span class="muted">${ABOUT[stage]}</span>
        <span>${failed ? "refused" : one ? `${one.found} (${duration(one.ms)})` : notRun(report, stage)}</span></li>`;
    })}${refused && !STAGES.includes(report.stage) && html`<li class="stage bad"><span class="name">${report.stage}</span><span>refused</span></li>`}</ol>
    ${report.text && refused && html`<pre tabindex="0" class="bad">${report.text}</pre>`}
    <p class="facts">The gate took ${duration(report.ms ?? 0)}.</p>
    ${report.test && html`<details><summary>What its test printed</summary><pre tabindex="0">${report.test}</pre></details>`}
    ${report.replay && html`<${Replay} replay=${report.replay} />`}
    ${report.score?.length > 0 && html`<details open><summary>Scores</summary><${Scores} lines=${report.score} /></details>`}
    ${report.granted && html`<details open=${report.raised?.length > 0}><summary>${report.asked ? "What it could reach, before and after" : "What the version before could reach"}</summary><${Authority} before=${report.granted} after=${report.asked} raised=${report.raised ?? []} /></details>`}`;
}

/** Whether a stage was passed with something that a person should see. @param {Plain} report @param {string} stage */
const isUnlike = (report, stage) =>
  (stage === "authority" && report.raised?.length > 0) || (stage === "replay" && report.replay?.changed.length > 0);

/** @param {Plain} report @param {string} stage */
function notRun(report, stage) {
  if (report.outcome === "refused") return "not tried any more";
  return (
    { test: "no test", replay: "no past calls", score: "no evals", authority: "a text reaches nothing" }[stage] ??
    "nothing to do"
  );
}

const VERDICTS = /** @type {Record<string, string>} */ ({
  same: "answered the same",
  changed: "answered otherwise",
  silent: "no longer answered",
  crash: "failed",
  timeout: "took too long",
  malformed: "answered in a form that cannot be read",
  noise: "left out: the version before does not answer the same way twice",
  both: "left out: the version before fails here too",
  mended: "succeeded, where the version before fails",
  cut: "broken off: the time for that was over",
  rest: "not played again: the time was over, or a call before had failed",
});

/** @param {{ replay: Plain }} props */
function Replay({ replay }) {
  const judged = Object.values(replay.verdicts).reduce((sum, count) => sum + count, 0);
  const counts = Object.entries({ ...replay.verdicts, rest: replay.total - judged }).filter(([, count]) => count > 0);
  return html`<details open=${replay.changed.length > 0}><summary>Past calls, played again: ${replay.replayed} of ${replay.total}</summary>
    <ul>${counts.map(([name, count]) => html`<li>${count} ${VERDICTS[name] ?? name}</li>`)}</ul>
    ${replay.changed.map((/** @type {Plain} */ one) => html`<p><strong>${one.script} ${one.hook}</strong>, recorded <${Time} time=${one.at} />, would answer otherwise:</p><${Diff} patch=${one.diff} />`)}
    ${replay.notes.map((/** @type {string} */ note) => html`<p class="muted">${note}</p>`)}
  </details>`;
}

/** @param {{ lines: Plain[] }} props */
function Scores({ lines }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label="Scores"><table class="figures"><thead><tr><th scope="col">Eval</th><th scope="col">Reference</th><th scope="col">Candidate</th><th scope="col">Pairs</th><th scope="col">Spread</th><th scope="col">May be worse by</th><th scope="col">Verdict</th></tr></thead>
    <tbody>${lines.map((one) => {
      const measured = [one.reference, one.candidate, one.pairs, one.spread, one.margin];
      return html`<tr><th scope="row">${one.name}</th>${measured.map((figure) => html`<td>${one.pairs ? digits(figure ?? 0) : "–"}</td>`)}
      <td>${one.refused ?? one.ignored ?? one.undecided ?? `${one.verdict} (${one.better ?? "higher"} is better)`}</td></tr>`;
    })}</tbody></table></div>`;
}

/** @param {number} value */
const digits = (value) => String(Number(value.toPrecision(6)));

/** @param {{ before: Plain, after: Plain | null, raised: string[] }} props */
function Authority({ before, after, raised }) {
  const rows = /** @type {[string, (one: Plain) => string][]} */ ([
    ["Held", (one) => one.hold],
    ["Network", (one) => (one.network ? "yes" : "no")],
    ["Writes in the workspace", (one) => names(one.write, "everywhere")],
    ["Variables", (one) => names(one.env, "")],
    ["Actions", (one) => names(one.actions, "every one")],
    [
      "Tools that ask about",
      (one) =>
        Object.entries(one.tools)
          .filter(([tool, args]) => args.length || before.tools[tool]?.length)
          .map(([tool, args]) => `${tool} (${args.length ? names(args, "") : "nothing"})`)
          .sort()
          .join(", ") || "none",
    ],
    [
      "Limits",
      (one) =>
        Object.entries(one.limits)
          .filter(([, most]) => most != null)
          .map(([name, most]) => `${name} ${name === "memory" ? bytes(most) : number(most)}`)
          .join(", ") || "none",
    ],
  ]);
  return html`${raised.map((one) => html`<p class="note">${one}</p>`)}
    <div class="wide" tabindex="0" role="region" aria-label="Authority"><table class="figures"><thead><tr><th scope="col">Reaches</th><th scope="col">Before</th>${after && html`<th scope="col">After</th>`}</tr></thead>
    <tbody>${rows.map(([name, said]) => {
      const [was, is] = [said(before), after && said(after)];
      return html`<tr class=${cls(after && was !== is && "differs")}><th scope="row">${name}</th><td>${was}</td>${after && html`<td>${is}</td>`}</tr>`;
    })}</tbody></table></div>
    ${!after && html`<p class="muted">What it would reach was not tried.</p>`}`;
}

/** @param {number} count */
const bytes = (count) => (count % 2 ** 30 ? `${digits(count / 2 ** 20)} MiB` : `${count / 2 ** 30} GiB`);
/** @param {string[] | null | undefined} list @param {string} all */
const names = (list, all) => (list == null ? all : [...list].sort().join(", ") || "none");

/** @param {{ expect: Plain, file: string }} props */
function Prediction({ expect, file }) {
  const stands = evolve.found().status?.probation?.[file];
  const field = { ms: "the median time in ms", failures: "the number of failures" }[
    /** @type {string} */ (expect.field)
  ];
  const deadline = [expect.calls && `${expect.calls} calls`, expect.minutes && `${expect.minutes} minutes`].filter(
    Boolean,
  );
  return html`<p>Of <code>${expect.hook}</code>, ${field ?? html`<code>${expect.field}</code>`} is ${expect.bound.replace("_", " ")} <code>${JSON.stringify(expect.value)}</code>
    after ${deadline.join(" or ")}; else the change is taken back.</p>${stands && html`<p>How it stands: ${stands}</p>`}`;
}

/** @param {Plain} about @param {Plain | null} report @returns {Plain | null} */
function prediction(about, report) {
  try {
    return report?.prediction ?? (about.expect ? JSON.parse(about.expect) : null);
  } catch {
    return null; // a trailer that a person wrote
  }
}

/** Who asked for a change, and what that step cost. @param {{ change: Plain, report: Plain | null, asked: Plain | null }} props */
function Cause({ change, report, asked }) {
  const session = report?.cause.session || change.session;
  const { info, parts = [] } = asked?.step ?? {};
  const said = textOf(parts);
  const prompt = textOf(asked?.prompt?.parts ?? []);
  const tokens = info?.tokens;
  return html`<h2>Who asked for it</h2>
    ${prompt && html`<p>The prompt:</p><blockquote>${prompt}</blockquote>`}
    ${said && html`<p>What the agent said as it proposed this:</p><blockquote>${said}</blockquote>`}
    <p class="facts">${session ? html`<a href=${`#/sessions/${session}`}>its session</a>` : change.by === "person" ? "a person" : "no session"}
      ${(report?.cause.tool || change.tool) && html` · by <code>${report?.cause.tool || change.tool}</code>`}
      ${tokens && html` · the step used ${number(tokens.input + tokens.cache.read + tokens.cache.write)} tokens in and ${number(tokens.output)} out, ${money(info.cost ?? 0)}`}
      ${change.author && html` · committed by ${change.author}`}</p>`;
}
/** @param {Plain[]} parts */
const textOf = (parts) =>
  parts
    .filter((one) => one.type === "text" && !one.synthetic)
    .map((one) => one.text)
    .join("\n")
    .slice(0, 2000);

/** What came of a change afterwards. @param {{ change: Plain, events: Plain[] }} props */
function Later({ change, events }) {
  const back = evolve.takenBack(change);
  const trial = evolve.found().status?.probation?.[change.files?.[0]];
  const kept = evolve
    .found()
    .changes.find((one) => one.kind === "kept" && one.time > change.time && one.files?.[0] === change.files?.[0]);
  const said = [
    back &&
      html`<li>It was taken back <${Time} time=${back.time} />, which ended its probation: <a href=${evolve.link("change", evolve.nameOf(back))}>${back.cause || "a person asked for it"}</a>.</li>`,
    !back && kept && html`<li>It passed its probation: ${kept.text}.</li>`,
    change.kind === "installed" && !back && !kept && trial && html`<li>${trial}</li>`,
    ...events.map((one) => html`<li>${word(one.kind)} <${Time} time=${one.time} /> ${one.text}</li>`),
  ].filter(Boolean);
  return said.length > 0 && html`<h2>What came of it</h2><ul>${said}</ul>`;
}

/** What a change takes back, by its number. @param {Plain} change */
function numberOf(change) {
  const epoch = evolve.rolledBack(change)?.epoch;
  return epoch != null ? `version ${epoch}` : change.rolls_back.slice(0, 10);
}

// Orders: each shows what it will change, and asks.

/** @param {{ change: Plain, entry: Plain | undefined, kind: string }} props */
function Orders({ change, entry, kind }) {
  const file = change.files?.[0];
  return html`<p class="orders">
    ${entry && html`<${Decide} entry=${entry} />`}
    ${kind === "installed" && change.commit && html`<${Order} kind="rollback" change=${change} label="Take back" />`}
    ${file && (evolve.pinOf(file) ? html`<${Order} kind="unpin" file=${file} label="Unpin" />` : html`<${Order} kind="pin" file=${file} label="Pin" />`)}
    ${change.commit && html`<a class="button" href=${evolve.link("compare", evolve.nameOf(change))}>Compare with now</a>`}
    ${file && change.commit && html`<a class="button" href=${evolve.link("file", file)}>Why each line is there</a>`}
  </p>`;
}

/** @param {{ entry: Plain }} props */
const Decide = ({ entry }) =>
  html`<${Order} kind="approve" entry=${entry} label="Approve" disabled=${evolve.isStale(entry)} /><${Order} kind="reject" entry=${entry} label="Reject" />`;

/** A candidate that waits, with all that a person decides on. @param {{ entry: Plain }} props */
export function Waiting({ entry }) {
  const { proposal } = entry;
  const { value } = useLoaded(() => evolve.asked(proposal.cause), [entry.id]);
  const prompt = textOf(value?.prompt?.parts ?? []);
  const proposed = evolve.found().changes.find((one) => evolve.waits(one) === entry);
  return html`<article class="waiting">
    <h3>${proposal.file}</h3>
    <${Stale} entry=${entry} />
    ${prompt && html`<p>The prompt:</p><blockquote>${prompt}</blockquote>`}
    <p>It passed its trials. A person has to allow:</p>
    <ul>${proposal.raised.map((/** @type {string} */ one) => html`<li>${one}</li>`)}</ul>
    <${Diff} patch=${proposal.diff} />
    ${proposed && html`<p><a href=${evolve.link("change", evolve.nameOf(proposed))}>What the gate found</a></p>`}
    <p class="orders"><${Decide} entry=${entry} /></p>
  </article>`;
}

const ASKS = /** @type {Record<string, { title: string, done: string, danger?: boolean }>} */ ({
  rollback: { title: "Take this change back?", done: "", danger: true },
  approve: { title: "Approve this change?", done: "" },
  reject: { title: "Reject this change?", done: "Rejected", danger: true },
  pin: { title: "Pin this file?", done: "Pinned" },
  unpin: { title: "Unpin this file?", done: "Unpinned" },
});

/** A button, and the dialog that asks first. @param {{ kind: string, label: string, disabled?: boolean, change?: Plain, entry?: Plain, file?: string }} props */
export function Order({ kind, label, disabled, ...given }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class=${cls(ASKS[kind]?.danger && "danger")} disabled=${disabled} onClick=${() => setOpen(true)}>${label}</button>
    ${open && html`<${Confirm} kind=${kind} label=${label} ...${given} onClose=${() => setOpen(false)} />`}`;
}

/** @param {{ kind: string, label: string, onClose: () => void, change?: Plain, entry?: Plain, file?: string }} props */
function Confirm({ kind, label, onClose, change, entry, file }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [reason, setReason] = useState("");
  const { title = "", done = "", danger } = ASKS[kind] ?? {};
  const works = /** @type {Record<string, () => Promise<any>>} */ ({
    rollback: () => evolve.rollBack(change?.commit),
    approve: () => evolve.approve(entry?.id),
    reject: () => evolve.reject(entry?.id, reason),
    pin: () => evolve.pin(file ?? ""),
    unpin: () => evolve.unpin(file ?? ""),
  });
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await works[kind]?.();
      if (done) say(`${done}: ${file ?? entry?.proposal.file}`); // of what changes files an event tells
      onClose();
    } catch (failed) {
      setError(String(/** @type {Error} */ (failed).message));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${kind === "rollback" && html`<${Undone} change=${change} />`}
      ${kind === "approve" && html`<p>It is tried once more, then ${entry?.proposal.takes_back ? "what the agent changed is taken back" : "it is live"}. You allow:</p><ul>${entry?.proposal.raised.map((/** @type {string} */ one) => html`<li>${one}</li>`)}</ul><${Diff} patch=${entry?.proposal.diff} />`}
      ${
        kind === "reject" &&
        html`<p><code>${entry?.proposal.file}</code> stays as it is, and just this change is not asked about again.</p>
        <label class="field">Why, for the log and the agent <input value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)} maxlength="4000" /></label>`
      }
      ${kind === "pin" && html`<p>The agent may no longer change <code>${file}</code> until you unpin it. What it is now stays.</p>`}
      ${kind === "unpin" && html`<p>The agent may change <code>${file}</code> again, through the gate.</p>`}
      <${Problem} text=${error} />
      <p class="orders"><button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy}>${busy ? "Working …" : label}</button>
        <button type="button" onClick=${onClose}>Cancel</button></p>
    </form>
  <//>`;
}

/** What taking a change back will change. @param {{ change: Plain }} props */
function Undone({ change }) {
  const old = evolve.before(change);
  const { value, error } = useLoaded(async () => {
    if (!old) throw new Error("what was there before is further back than this page has loaded");
    const parts = await Promise.all(
      change.files.map((/** @type {string} */ file) => evolve.compare("HEAD", old.commit, file)),
    );
    return parts.map((one) => one.diff).join("");
  }, [change.commit, old?.commit]);
  const waiting = evolve.found().waiting.filter((one) => change.files.includes(one.proposal.file));
  return html`${waiting.length > 0 && html`<p class="note">A change of ${waiting.map((one) => one.proposal.file).join(", ")} waits for you. It is out of date then: you can only reject it, and the agent may propose it again.</p>`}
    <p>${change.files.join(", ")} goes back to what it was before this change, by a new commit. No other file changes:</p>
    ${error && html`<p class="muted">${error}</p>`}
    ${value !== undefined && (value ? html`<${Diff} patch=${value} />` : html`<p class="muted">It is already as it was.</p>`)}`;
}

// Two versions, and the lines of a file.

/** @param {{ words: string[] }} props */
export function Compare({ words: [given = "", now = ""] }) {
  const commits = evolve.found().changes.filter((one) => one.commit);
  const [old, setOld] = useState(given);
  const [last, setLast] = useState(now || "HEAD");
  useEffect(() => {
    setOld(given || commits.at(-1)?.commit.slice(0, 12) || "initial");
    setLast(now || "HEAD");
  }, [given, now]);
  const { value, error } = useLoaded(async () => (old ? evolve.compare(old, last) : null), [old, last]);
  /** @param {string} label @param {string} value @param {(to: string) => void} set @param {string} newest */
  const choice = (
    label,
    value,
    set,
    newest,
  ) => html`<label>${label} <select value=${value} onChange=${(/** @type {any} */ event) => set(event.target.value)}>
    ${newest && html`<option value=${newest}>as it is now</option>`}
    ${commits.map((one) => html`<option value=${one.commit.slice(0, 12)}>${one.epoch != null ? `version ${one.epoch}: ${titleOf(one)}` : one.subject === "initial" ? "the first version" : `no version of its own: ${one.subject}`} (${new Date(one.time).toLocaleString("en-GB")})</option>`)}
  </select></label>`;
  useHeading(true);
  return html`<h1 tabindex="-1">Compare two versions</h1>
    <div class="filters">${choice("From", old, setOld, "")} ${choice("To", last, setLast, "HEAD")}</div>
    <${Problem} text=${error} />
    ${value && (value.diff ? html`<${Diff} patch=${value.diff} />` : html`<p>They are the same.</p>`)}
    ${value?.cut > 0 && html`<p class="muted">${number(value.cut)} more characters are left out.</p>`}`;
}

/** A file line by line, with the version that wrote each. @param {{ words: string[] }} props */
export function SourceFile({ words }) {
  const at = /^\d+$/.test(words.at(-1) ?? "") ? Number(words.at(-1)) : 0;
  const file = (at ? words.slice(0, -1) : words).join("/");
  const epoch = evolve.found().status?.epoch;
  const { value, error } = useLoaded(() => evolve.blame(file), [file, epoch]);
  useHeading(true);
  return html`<h1 tabindex="-1">${file}</h1>
    <p class="muted">Choose a version at the left of a line to see why that line is there.</p>
    <${Problem} text=${error} />
    ${at > 0 && html`<${Why} file=${file} line=${at} />`}
    ${
      value &&
      html`<div class="source wide" tabindex="0" role="region" aria-label=${`${file} line by line`}><table><tbody>${value.lines.map(
        (/** @type {Plain} */ line, /** @type {number} */ index) => {
          const first = index === 0 || value.lines[index - 1].commit !== line.commit;
          const label = line.commit
            ? line.epoch != null
              ? `version ${line.epoch}`
              : line.commit.slice(0, 7)
            : "not yet";
          return html`<tr class=${cls(first && "first", line.epoch != null && "agent", index + 1 === at && "chosen")}>
        <td>${first && html`<a href=${evolve.link("file", file, index + 1)} aria-label=${`why line ${index + 1} is there: ${label}`}>${label}</a>`}</td>
        <td class="line-number"><a href=${evolve.link("file", file, index + 1)} tabindex="-1" aria-label=${`line ${index + 1}`}>${index + 1}</a></td><td><code>${line.code || " "}</code></td></tr>`;
        },
      )}</tbody></table></div>`
    }`;
}

/** @param {{ file: string, line: number }} props */
function Why({ file, line }) {
  const { value, error } = useLoaded(() => evolve.why(file, line), [file, line]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!value) return null;
  const { change, prompt, missing } = value;
  return html`<section class="why" aria-label=${`Why line ${line} is there`}>
    <h2>Why line ${line} is there</h2><pre tabindex="0">${value.code}</pre>
    ${change && html`<p>${change.by === "agent" ? "The agent wrote it" : "A person wrote it"} <${Time} time=${change.time} />${change.epoch != null && ` as version ${change.epoch}`}: <a href=${evolve.link("change", evolve.nameOf(change))}>${change.text || change.subject}</a></p>`}
    ${prompt && html`<p>It was asked:</p><blockquote>${prompt.text}</blockquote>`}
    ${missing && html`<p class="muted">${missing}</p>`}
  </section>`;
}
