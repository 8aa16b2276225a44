// @ts-check
/** Pictures in SVG: the versions of a workspace, and bars. What they show stands beside them as text too. */

import { html, cls } from "./ui.js";
import * as evolve from "./evolve.js";

/** @typedef {evolve.Plain} Plain */

const ROW = 46;
const STEP = 26;
const MOST = 40;
const SHOWN = /^(installed|taken back|refused|waits|decided|rolled back|accepted|departed|approved|changed)$/;

/**
 * The versions of each file, oldest first: what was installed, what was refused, what was taken back and by what.
 * @param {{ changes: Plain[] }} props
 */
export function Graph({ changes }) {
  const tried = changes
    .filter((one) => one.kind === "installed" || one.kind === "refused")
    .flatMap((one) => one.files ?? []);
  const files = [...new Set(tried.filter((file) => /^(hooks|prompts|config)\//.test(file)))].slice(0, 8);
  const drawn = changes
    .filter(
      (one) => SHOWN.test(evolve.outcome(one)) && one.files?.some((/** @type {string} */ file) => files.includes(file)),
    )
    .slice(0, MOST)
    .reverse();
  if (!drawn.length) return html`<p class="muted">There is no version but the first.</p>`;
  const width = Math.max(220, 30 + drawn.length * STEP);
  /** @param {number} index */
  const x = (index) => 18 + index * STEP;
  /** @param {Plain} change */
  const y = (change) =>
    22 + Math.max(0, files.indexOf(change.files.find((/** @type {string} */ file) => files.includes(file)))) * ROW;
  const installed = drawn.filter((one) => evolve.outcome(one) === "installed").length;
  const refused = drawn.filter((one) => one.kind === "refused").length;
  const label = `${drawn.length} steps of ${files.join(", ")}: ${installed} live changes, ${refused} refused. The timeline lists them.`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="Graph of versions"><svg class="graph" role="img" aria-label=${label} width=${width} height=${files.length * ROW + 8} viewBox=${`0 0 ${width} ${files.length * ROW + 8}`}>
    ${files.map((file, row) => html`<text x="4" y=${row * ROW + 10}>${file}</text><line x1="8" x2=${width - 8} y1=${22 + row * ROW} y2=${22 + row * ROW} />`)}
    ${drawn.map((one, index) => arc(one, index, drawn, x, y))}
    ${drawn.map((one, index) => node(one, x(index), y(one)))}
  </svg></div>
  <ul class="legend">${LEGEND.map(([kind, text]) => html`<li><svg class="graph" width="16" height="16" aria-hidden="true">${mark(kind, 8, 8)}</svg> ${text}</li>`)}<li>a number: the version</li></ul>`;
}

const LEGEND = /** @type {[string, string][]} */ ([
  ["installed", "installed"],
  ["installed trial", "on probation"],
  ["taken back", "taken back later"],
  ["rolled back", "takes one back"],
  ["waits", "waits for you"],
  ["refused", "refused"],
  ["changed", "anything else"],
]);

/** @param {Plain} change @param {number} index @param {Plain[]} drawn @param {(at: number) => number} x @param {(one: Plain) => number} y */
function arc(change, index, drawn, x, y) {
  const target = drawn.findIndex(
    (one) => one.commit && change.rolls_back?.length >= 7 && one.commit.startsWith(change.rolls_back),
  );
  if (target < 0) return null;
  const [from, to, height] = [x(index), x(target), y(change)];
  return html`<path class="arc" d=${`M${from},${height} C${from},${height + 14} ${to},${height + 14} ${to},${height}`} />`;
}

/** @param {Plain} change @param {number} x @param {number} y */
function node(change, x, y) {
  const kind = evolve.outcome(change);
  const name = evolve.nameOf(change);
  const go = () => {
    if (name) location.hash = evolve.link("change", name);
  };
  const said = `${kind}${change.epoch != null ? ` ${change.epoch}` : ""}: ${change.files.join(", ")}`;
  const trial = evolve.found().status?.probation?.[change.files[0]] && isLive(change);
  return html`<g onClick=${go}><title>${said}</title>${mark(trial ? `${kind} trial` : kind, x, y)}
    ${change.epoch != null && html`<text class="number" x=${x} y=${y + 18}>${change.epoch}</text>`}</g>`;
}

/** What a change is drawn as. @param {string} kind @param {number} x @param {number} y */
function mark(kind, x, y) {
  if (kind === "refused") return html`<path class="cross" d=${`M${x - 4},${y - 4}l8,8m0,-8l-8,8`} />`;
  if (kind === "waits" || kind === "decided")
    return html`<path class=${cls("node", kind)} d=${`M${x},${y - 7}l7,7l-7,7l-7,-7z`} />`;
  return html`<circle class=${cls("node", ...kind.replace(/(taken|rolled) /, "$1-").split(" "))} cx=${x} cy=${y} r="6" />`;
}

/** Whether it is what runs now. @param {Plain} change */
const isLive = (change) =>
  evolve.found().changes.find((one) => one.epoch != null && one.files?.includes(change.files[0])) === change;

/**
 * Bars of a value by name, the longest the whole width; `rows` have a name, a value, words for it, and parts of it in order.
 * @param {{ label: string, rows: { name: string, value: number, words: string, part?: number }[] }} props
 */
export function Bars({ label, rows }) {
  const most = Math.max(1, ...rows.map((one) => one.value));
  return html`<table class="bars"><caption>${label}</caption><tbody>${rows.map(
    (one) => html`<tr><th scope="row">${one.name}</th>
    <td><svg width="100%" height="12" aria-hidden="true" preserveAspectRatio="none" viewBox="0 0 100 12">
      <rect class="bar" width=${(100 * one.value) / most} height="12" />${one.part ? html`<rect class="bar part" width=${(100 * one.part) / most} height="12" />` : null}</svg></td>
    <td class="words">${one.words}</td></tr>`,
  )}</tbody></table>`;
}
