// @ts-check
/** The overview: what runs, what it costs, what waits to be accepted, what is wrong, and the switch that stops it all. */

import {
  html,
  useState,
  useEffect,
  useTopic,
  useLoaded,
  attempt,
  duration,
  money,
  number,
  say,
  Diff,
  Dialog,
  Problem,
  Time,
} from "./ui.js";
import * as api from "./api.js";
import * as store from "./store.js";
import { at } from "./evolve.js";
import { Bars } from "./plot.js";

/** @typedef {Record<string, any>} Plain */

const BY = /** @type {[string, string][]} */ ([
  ["day", "Day"],
  ["model", "Model"],
  ["agent", "Agent"],
  ["session", "Session"],
  ["cause", "What it was for"],
]);
const SHOWN = 10;

/** A part of the page that loads by itself, and says so where it cannot. @param {string} path @param {any[]} [deps] */
const useAnswer = (path, deps = []) => useLoaded(() => api.get(at(path)), [store.directory(), path, ...deps]);

export function Overview() {
  useTopic("reloaded");
  return html`<div class="overview">
    <header class="head"><h1>Overview</h1><${Stop} /></header>
    <div class="cards">
      <${Spent} /><${Heartbeats} /><${Limits} /><${Rules} /><${Accepting} /><${Parts} /><${Doctor} />
    </div>
  </div>`;
}

/** @param {{ title: string, error?: string, children?: any }} props */
function Card({ title, error = "", children }) {
  return html`<section class="card" aria-label=${title}><h2>${title}</h2><${Problem} text=${error} />${children}</section>`;
}

// Stop everything.

function Stop() {
  const [asks, setAsks] = useState(false);
  const { value, reload } = useAnswer("/instar/stop");
  const stop = async () => {
    setAsks(false);
    const done = await attempt(() => api.post(at("/instar/stop"), { all: true }));
    if (done) say(`Stopped ${done.sessions.length} sessions. Heartbeats wait until you let them go on.`);
    reload();
  };
  const resume = async () => {
    if (await attempt(() => api.post(at("/instar/stop/resume"), { all: true }))) say("What is automatic goes on.");
    reload();
  };
  return html`<p class="orders">
    ${value?.halted > 0 && html`<span class="note">Stopped: nothing begins by itself.</span><button type="button" onClick=${resume}>Let it go on</button>`}
    <button type="button" class="danger" onClick=${() => setAsks(true)}>Stop everything</button>
    ${
      asks &&
      html`<${Dialog} title="Stop everything?" onClose=${() => setAsks(false)}>
      <p>Every turn of every project ends, in whichever process of yours it runs, and its commands with it. No heartbeat begins until you let it go on. Sessions and files stay.</p>
      <p class="orders"><button type="button" class="danger" onClick=${stop}>Stop everything</button><button type="button" onClick=${() => setAsks(false)}>Cancel</button></p>
    <//>`
    }
  </p>`;
}

// Costs.

function Spent() {
  const [by, setBy] = useState("day");
  const [days, setDays] = useState("30");
  const query = days ? `&days=${days}` : "";
  const { value, error, reload } = useLoaded(() => api.get(`/instar/stats?by=${by}&tools=true${query}`), [by, days]);
  useEffect(
    () =>
      store.hear((event) => event.type === "session.status" && event.properties.status?.type === "idle" && reload()),
    [],
  );
  const total = value?.total;
  const tools = Object.entries(value?.tools ?? {})
    .sort(([, a], [, b]) => b - a)
    .slice(0, SHOWN);
  const rows = [...(value?.by[by] ?? [])]
    .sort((a, b) => (by === "day" ? (a.key < b.key ? 1 : -1) : sum(b) - sum(a)))
    .slice(0, by === "day" ? 14 : SHOWN);
  return html`<${Card} title="Tokens and money" error=${error}>
    <div class="filters">
      <label>By <select value=${by} onChange=${(/** @type {any} */ event) => setBy(event.target.value)}>${BY.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>
      <label>Of <select value=${days} onChange=${(/** @type {any} */ event) => setDays(event.target.value)}>
        <option value="0">today</option><option value="7">7 days</option><option value="30">30 days</option><option value="">all time</option></select></label>
    </div>
    ${
      total &&
      html`<p><strong>${cost(total)}</strong> for ${number(total.calls)} calls: ${number(sum(total))} tokens in, of which the cache served ${share(total)}, and ${number(total.tokens.output)} out.</p>
      <${Bars} label="Tokens in (dark: served by the cache) and out" rows=${rows.map((one) => ({ name: one.title || one.key, value: sum(one) + one.tokens.output, part: one.tokens.cache.read, words: `${number(sum(one) + one.tokens.output)} · ${share(one)} cached · ${cost(one)}` }))} />
      ${value.evolution.length > 0 && html`<p class="muted">Changing itself: ${value.evolution.map((/** @type {Plain} */ one) => `${one.kind} ${number(sum(one) + one.tokens.output)} tokens`).join(", ")}.</p>`}
      ${tools.length > 0 && html`<${Bars} label="Tools that the model used most" rows=${tools.map(([name, count]) => ({ name, value: count, words: number(count) }))} />`}`
    }
  <//>`;
}

/** All tokens that were sent. @param {Plain} one */
const sum = (one) => one.tokens.input + one.tokens.cache.read + one.tokens.cache.write;
/** @param {Plain} one */
const share = (one) => (one.cached == null ? "0 %" : `${Math.round(100 * one.cached)} %`);
/** @param {Plain} one */
const cost = (one) => `${money(one.cost)}${one.unpriced ? "+" : ""}`;

// Heartbeats.

function Heartbeats() {
  const { value, error, reload } = useAnswer("/instar/heartbeat");
  const [busy, setBusy] = useState(false);
  useEffect(() => store.hear((event) => event.type === "session.status" && reload()), []);
  /** @param {string} what */
  const order = async (what) => {
    setBusy(true);
    await attempt(() => api.post(at(`/instar/heartbeat/${what}`)));
    setBusy(false);
    reload();
  };
  if (!value) return html`<${Card} title="Heartbeats"><p class="muted">${error || "Loading …"}</p><//>`;
  const off = value.every == null || value.every < 1;
  const next = value.running
    ? "one runs now"
    : value.paused
      ? `paused: ${value.paused.why}`
      : value.next
        ? `next ${inTime(value.next)}`
        : "none is due";
  return html`<${Card} title="Heartbeats" error=${error}>
    <p>${off ? html`Off. <code>heartbeat_ms</code> in the workspace's <code>config/evolve.jsonc</code> turns them on.` : `Every ${duration(value.every)}; ${next}.`}</p>
    ${value.problems.map((/** @type {string} */ one) => html`<p class="note">${one}</p>`)}
    ${
      !off &&
      html`<p class="orders"><button type="button" disabled=${busy} onClick=${() => order("now")}>${busy ? "It beats …" : "Beat now"}</button>
      ${value.paused ? html`<button type="button" onClick=${() => order("resume")}>Resume</button>` : html`<button type="button" onClick=${() => order("pause")}>Pause</button>`}</p>`
    }
    ${
      value.log.length > 0 &&
      html`<div class="wide" tabindex="0" role="region" aria-label="Past heartbeats"><table class="figures"><thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Took</th><th scope="col">Tokens</th><th scope="col">Cost</th></tr></thead>
      <tbody>${[...value.log]
        .reverse()
        .slice(0, SHOWN)
        .map(
          (one) => html`<tr><th scope="row"><${Time} time=${one.at} /></th>
        <td>${one.session ? html`<a href=${`#/sessions/${one.session}`}>${one.kind}</a>` : one.kind}${one.times > 1 && ` ${one.times} times`}${one.why && `: ${one.why}`}</td>
        <td>${one.end ? duration(one.end - one.at) : "–"}</td><td>${one.tokens ? number(one.tokens) : "–"}</td><td>${one.cost ? money(one.cost) : "–"}</td></tr>`,
        )}</tbody></table></div>`
    }
  <//>`;
}

/** @param {number} time */
function inTime(time) {
  const left = time - Date.now();
  return left > 0 ? `in ${duration(left)}` : "is due";
}

// Limits, rules, what steers.

function Limits() {
  const { value, error } = useAnswer("/instar/limits");
  return html`<${Card} title="Limits" error=${error}>${
    value &&
    html`
    <p>A turn may take ${number(value.steps)} steps${value.minutes ? ` and ${value.minutes} minutes` : ""}; ${number(value.calls)} model calls in a row without a person.</p>
    ${Object.entries(value.waiting).map(([provider, seconds]) => html`<p class="note">${provider} failed too often: it waits ${Math.round(Number(seconds))} s.</p>`)}
    <table class="figures"><thead><tr><th scope="col">Limit</th><th scope="col">Used</th><th scope="col">Left</th></tr></thead>
      <tbody>${value.limits.map((/** @type {Plain} */ one) => html`<tr><th scope="row"><code>${one.path}</code></th><td>${number(one.used.tokens)} tokens, ${cost(one.used)}</td><td>${room(one)}</td></tr>`)}</tbody></table>`
  }
  <//>`;
}

/** What is left of a limit. @param {Plain} one */
function room({ most, left }) {
  const said = [
    most.tokens != null && `${number(left.tokens)} of ${number(most.tokens)} tokens`,
    most.cost != null && `${money(left.cost)} of ${money(most.cost)}`,
  ].filter(Boolean);
  return said.join(", ") || "no limit is set";
}

function Rules() {
  const { value, error } = useAnswer("/instar/hooks");
  const figures = useAnswer("/instar/hooks/stats");
  if (!value)
    return html`<${Card} title="Rules"><p class="muted">${error.replace(/^hooks is not in use in this directory/, "No rules are in force here") || "Loading …"}</p>
      <p class="muted">These are rules of the settings and of <code>hooks.json</code>. The hook scripts of a workspace stand under <a href="#/evolution">Evolution</a>.</p><//>`;
  const ran = figures.value?.lines ?? [];
  return html`<${Card} title="Rules" error=${error}>
    ${value.problems.map((/** @type {string} */ one) => html`<p class="note">${one}</p>`)}
    <div class="wide" tabindex="0" role="region" aria-label="Rules in force"><table class="figures"><thead><tr><th scope="col">When</th><th scope="col">Rule</th><th scope="col">From</th></tr></thead>
      <tbody>${value.rules.map((/** @type {Plain} */ one) => html`<tr><th scope="row">${one.event} ${one.matcher}</th><td>${one.evaluator}: <code>${one.text}</code></td><td>${one.place}</td></tr>`)}</tbody></table></div>
    ${
      ran.length > 0 &&
      html`<h3>What they decided</h3><div class="wide" tabindex="0" role="region" aria-label="Decisions of rules"><table class="figures">
      <thead><tr><th scope="col">Rule</th><th scope="col">Runs</th><th scope="col">Decided</th></tr></thead>
      <tbody>${ran.map((/** @type {Plain} */ one) => html`<tr><th scope="row">${one.event}: ${one.rule}</th><td>${number(one.runs)}</td><td>${decisions(one)}</td></tr>`)}</tbody></table></div>`
    }
  <//>`;
}

/** @param {Plain} one */
const decisions = (one) =>
  [...Object.entries(one.actions), ["undecided", one.undecided]]
    .filter(([, count]) => count)
    .map(([name, count]) => `${name} ${number(count)}`)
    .join(", ") || "–";

/** What steers and is not heard, since nobody accepted it. */
function Accepting() {
  const { value, error, reload } = useAnswer("/instar/trust");
  useEffect(() => store.hear((event) => event.type === "instar.trust.changed" && reload()), []);
  const accept = async () => {
    if (await attempt(() => api.post(at("/instar/trust"), { version: value.version })))
      say("Accepted. It counts from the next start of its sessions on.");
    reload();
  };
  return html`<${Card} title="Files that steer" error=${error}>${
    value &&
    html`
    <p>${value.trusted ? "You trust this folder." : "You have not trusted this folder: what steers in it is not heard."}
      ${value.changes.length === 0 && " Nothing waits to be accepted."}</p>
    ${value.changes.map((/** @type {Plain} */ one) => html`<details open><summary>${one.change}: <code>${one.file}</code></summary><${Diff} patch=${one.diff} /></details>`)}
    ${
      value.changes.length > 0 &&
      html`<p class="orders"><button type="button" onClick=${accept}>Accept what is shown</button></p>
      <p class="muted">At a terminal: <code>instar trust ${value.folders[0]}</code></p>`
    }`
  }
  <//>`;
}

// What it is made of.

function Parts() {
  const shield = useAnswer("/instar/shield");
  const mcp = useAnswer("/mcp");
  const config = useAnswer("/config");
  const servers = Object.entries(mcp.value ?? {});
  const plugins = config.value?.plugin ?? [];
  return html`<${Card} title="What it is made of" error=${mcp.error || config.error}>
    <dl class="facts-list">
      <dt>Confinement</dt><dd>${shield.value ? `what the model starts is held at the level ${shield.value.level} (at most ${shield.value.atMost ?? shield.value.at_most})` : "instar doctor says it"}</dd>
      <dt>Plugins</dt><dd>${plugins.length ? plugins.map((/** @type {any} */ one) => html`<code>${Array.isArray(one) ? one[0] : one}</code> `) : "none but the built-in ones"}</dd>
      <dt>MCP servers</dt><dd>${servers.length ? servers.map(([name, one]) => html`<span><code>${name}</code> ${one.status}${one.error && `: ${one.error}`} </span>`) : "none"}</dd>
      <dt>Model</dt><dd>${config.value?.model ?? "chosen with each prompt"}</dd>
    </dl>
  <//>`;
}

function Doctor() {
  const [state, setState] = useState(/** @type {Plain | null} */ (null));
  const [busy, setBusy] = useState(false);
  const check = async () => {
    setBusy(true);
    setState((await attempt(() => api.get(at("/instar/doctor")))) ?? state);
    setBusy(false);
  };
  return html`<${Card} title="Doctor">
    <p class="orders"><button type="button" disabled=${busy} onClick=${check}>${busy ? "Looking …" : "Look for what is wrong"}</button></p>
    ${
      state &&
      html`<ul class="checks">${state.lines.map((/** @type {Plain} */ one) => html`<li><span class=${`outcome ${{ ok: "good", note: "warn", problem: "bad" }[/** @type {string} */ (one.state)]}`}>${one.state}</span> <strong>${one.name}</strong> ${one.text}${one.todo && html`<br /><span class="muted">${one.todo}</span>`}</li>`)}</ul>
      <p>Next: <code>${state.next}</code></p>`
    }
  <//>`;
}
