// @ts-check
/** Markdown as virtual nodes. What a model wrote is never parsed as HTML: its tags are shown as text. */

import { html, useState, useEffect, useRef } from "./ui.js";
import { lexer } from "./vendor/marked.js";
import { tokenizer } from "./vendor/highlight/tokenize.js";

/** @typedef {Record<string, any>} Token */

const LANGUAGES = new Set(
  "bash c css diff docker go html http ini java js json lua make md pl py regex rs sql toml ts xml yaml log".split(" "),
);
/** @type {Record<string, string>} */
const NAMES = {
  sh: "bash",
  shell: "bash",
  console: "bash",
  zsh: "bash",
  "c++": "c",
  cpp: "c",
  h: "c",
  dockerfile: "docker",
  golang: "go",
  javascript: "js",
  jsx: "js",
  mjs: "js",
  typescript: "ts",
  tsx: "ts",
  makefile: "make",
  markdown: "md",
  perl: "pl",
  python: "py",
  rust: "rs",
  patch: "diff",
  svg: "xml",
  yml: "yaml",
  jsonc: "json",
  cfg: "ini",
};
const LONGEST_CODE = 50_000;

/** Where a link may lead; null for what is none. @param {string} href */
export function safeLink(href) {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null; // a relative address would lead into this page
  }
}

/**
 * A text in Markdown. A text that grows is read anew only from its last blocks on.
 * @param {{ text: string }} props
 */
export function Markdown({ text }) {
  const read = useRef({ text: "", blocks: /** @type {Token[]} */ ([]) });
  if (read.current.text !== text) read.current = { text, blocks: blocksOf(text, read.current) };
  return html`<div class="markdown">${read.current.blocks.map((token, index) => html`<${Block} key=${index} token=${token} />`)}</div>`;
}

/** @param {string} text @param {{ text: string, blocks: Token[] }} before */
function blocksOf(text, before) {
  const kept = text.startsWith(before.text) ? before.blocks.slice(0, -2) : [];
  const length = kept.reduce((sum, token) => sum + token.raw.length, 0);
  // The lexer may change line ends; then the lengths do not fit, and all is read.
  const fits = kept.map((token) => token.raw).join("") === text.slice(0, length);
  return fits ? [...kept, ...lexer(text.slice(length))] : lexer(text);
}

/** One block; it is drawn again only if it is another one. @param {{ token: Token }} props */
function Block({ token }) {
  const drawn = useRef(/** @type {{ token: Token | null, node: any }} */ ({ token: null, node: null }));
  if (drawn.current.token !== token) drawn.current = { token, node: block(token) };
  return drawn.current.node;
}

/** @param {Token} token @returns {any} */
function block(token) {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return html`<p class=${`heading h${token.depth}`} role="heading" aria-level=${Math.min(token.depth + 2, 6)}>${inline(token.tokens)}</p>`;
    case "code":
      return html`<${Code} text=${token.text} language=${token.lang ?? ""} />`;
    case "blockquote":
      return html`<blockquote>${token.tokens.map(block)}</blockquote>`;
    case "list": {
      const items = token.items.map(
        (/** @type {Token} */ item) => html`<li>${item.task ? task(item) : ""}${item.tokens.map(block)}</li>`,
      );
      return token.ordered ? html`<ol start=${token.start || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case "table":
      return html`<div class="wide" tabindex="0"><table>
        <thead><tr>${token.header.map((/** @type {Token} */ cell) => html`<th scope="col">${inline(cell.tokens)}</th>`)}</tr></thead>
        <tbody>${token.rows.map((/** @type {Token[]} */ row) => html`<tr>${row.map((cell) => html`<td>${inline(cell.tokens)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
    case "hr":
      return html`<hr />`;
    case "paragraph":
      return html`<p>${inline(token.tokens)}</p>`;
    case "text":
      return html`<span>${token.tokens ? inline(token.tokens) : token.text}</span>`;
    default:
      return html`<p>${token.raw}</p>`;
  }
}

/** @param {Token} item */
const task = (item) => (item.checked ? "☑ " : "☐ ");

/** @param {Token[]} tokens @returns {any[]} */
function inline(tokens) {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case "strong":
        return html`<strong>${inline(token.tokens)}</strong>`;
      case "em":
        return html`<em>${inline(token.tokens)}</em>`;
      case "del":
        return html`<del>${inline(token.tokens)}</del>`;
      case "codespan":
        return html`<code>${token.text}</code>`;
      case "br":
        return html`<br />`;
      case "link":
        return link(token.href, inline(token.tokens));
      case "image":
        // It would be fetched from elsewhere, which tells that somebody reads: a link leaves that to the person.
        return link(token.href, `[image] ${token.text || token.href}`);
      case "escape":
        return token.text;
      case "text":
        return token.tokens ? inline(token.tokens) : unescaped(token.text);
      default:
        return token.raw;
    }
  });
}

/** @param {string} href @param {any} content */
function link(href, content) {
  const safe = safeLink(href);
  return safe
    ? html`<a href=${safe} target="_blank" rel="noopener noreferrer nofollow">${content}</a>`
    : html`<span>${content}</span>`;
}

const ENTITIES = /** @type {Record<string, string>} */ ({
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
});

/** The entities that people write; all others stay as they are. @param {string} text */
const unescaped = (text) =>
  text.replace(/&(?:#(\d{1,6})|(amp|lt|gt|quot|apos|nbsp));/g, (_, code, name) =>
    code ? String.fromCodePoint(Math.min(+code, 0x10ffff)) : (ENTITIES[name] ?? ""),
  );

/** Code with its words marked; the language's rules are fetched when it is first shown. @param {{ text: string, language?: string }} props */
export function Code({ text, language = "" }) {
  const [parts, setParts] = useState(/** @type {[string, string][] | null} */ (null));
  const first =
    language
      .trim()
      .toLowerCase()
      .split(/[\s{:]/)[0] ?? "";
  const name = NAMES[first] ?? first;
  useEffect(() => {
    let wanted = true;
    if (!LANGUAGES.has(name) || text.length > LONGEST_CODE) setParts(null);
    else
      highlighted(text, name).then(
        (found) => wanted && setParts(found),
        () => wanted && setParts(null),
      );
    return () => {
      wanted = false;
    };
  }, [text, name]);
  const marked = parts && parts.map(([part]) => part).join("") === text ? parts : [[text, ""]];
  return html`<pre class="code" tabindex="0"><code>${marked.map(([part, kind]) => (kind ? html`<span class=${`is-${kind}`}>${part}</span>` : part))}</code></pre>`;
}

/** @type {Map<string, Promise<any>>} */
const loaded = new Map();

/** @param {string} text @param {string} name */
async function highlighted(text, name) {
  /** @type {[string, string][]} */
  const parts = [];
  const work = tokenizer(text, name, (part, kind) => {
    if (part) parts.push([part, kind ?? ""]);
  });
  for (let step = work.next(); !step.done; ) {
    const wanted = step.value;
    if (!loaded.has(wanted)) loaded.set(wanted, import(`./vendor/highlight/${wanted}.js`));
    step = work.next((await loaded.get(wanted)).default);
  }
  return parts;
}
