// @ts-check
/** What every view is made of: the virtual DOM, what re-draws it, and small parts. */

import { h, render, Fragment, createContext } from "./vendor/preact.js";
import { useState, useEffect, useRef, useMemo, useCallback, useReducer, useLayoutEffect } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export { h, render, Fragment, createContext };
export { useState, useEffect, useRef, useMemo, useCallback, useReducer, useLayoutEffect };

/** A template whose values become texts, attributes and nodes of the virtual DOM, never HTML. */
export const html = htm.bind(h);

// Re-drawing. A view listens to topics; what changes names its topic, and all of a frame are drawn at once.

/** @type {Map<string, Set<() => void>>} */
const listeners = new Map();
/** @type {Set<string>} */
const dirty = new Set();
let waits = false;

/** Draw again, in the next frame, what listens to a topic. @param {string} topic */
export function changed(topic) {
  dirty.add(topic);
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    const topics = [...dirty];
    dirty.clear();
    for (const one of topics) for (const draw of [...(listeners.get(one) ?? [])]) draw();
  });
}

/** Draw the component again when a topic changes. @param {string} topic */
export function useTopic(topic) {
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useLayoutEffect(() => {
    const draws = () => draw(undefined);
    const found = listeners.get(topic) ?? new Set();
    listeners.set(topic, found.add(draws));
    return () => {
      found.delete(draws);
      if (!found.size) listeners.delete(topic);
    };
  }, [topic]);
}

/**
 * Load a value when the view comes, and anew when `deps` change or `reload` is called; the old one stays meanwhile.
 * @template T @param {() => Promise<T>} load @param {any[]} deps
 * @returns {{ value: T | undefined, error: string, reload: () => void }}
 */
export function useLoaded(load, deps) {
  const [state, set] = useState(
    /** @type {{ value: T | undefined, error: string }} */ ({ value: undefined, error: "" }),
  );
  const [count, again] = useState(0);
  useEffect(() => {
    let wanted = true;
    load().then(
      (value) => wanted && set({ value, error: "" }),
      (error) => wanted && set((old) => ({ value: old.value, error: String(error.message) })),
    );
    return () => {
      wanted = false;
    };
  }, [count, ...deps]);
  return { ...state, reload: useCallback(() => again((old) => old + 1), []) };
}

setInterval(changed, 60_000, "minute");

// Words.

/** A price in US dollars with as many digits as it needs. @param {number} dollars */
export const money = (dollars) => `$${dollars >= 1 || !dollars ? dollars.toFixed(2) : dollars.toFixed(4)}`;

/** A count with thin separators: 12,345. @param {number} count */
export const number = (count) => count.toLocaleString("en");

/** How long something took. @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** How long ago a time was. @param {number} ms */
export function ago(ms) {
  const seconds = (Date.now() - ms) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(ms).toLocaleDateString("en-CA");
}

/** A path with the home folder and what leads to its last two folders cut off. @param {string} path */
export const shortPath = (path) => (path.split("/").length > 3 ? `…/${path.split("/").slice(-2).join("/")}` : path);

// Control characters, and those that take no room or turn the direction of a text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text in which what could not be seen can be: the reverse of a direction as `\\u202e`. @param {string} text */
export const visible = (text) => text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Class names; false ones are left out. @param {...(string | false | null | undefined)} names */
export const cls = (...names) => names.filter(Boolean).join(" ");

// Small parts.

const LONGEST_DIFF = 2000; // lines

/** @param {{ time: number }} props */
export function Time({ time }) {
  useTopic("minute");
  const date = new Date(time);
  return html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${ago(time)}</time>`;
}

/** What went wrong, read aloud at once. @param {{ text: string }} props */
export const Problem = ({ text }) => (text ? html`<p class="problem" role="alert">${text}</p>` : null);

/**
 * A dialog over the page; Escape and the backdrop close it.
 * @param {{ title: string, onClose: () => void, children?: any }} props
 */
export function Dialog({ title, onClose, children }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = /** @type {HTMLDialogElement} */ (ref.current);
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  /** @param {MouseEvent} event */
  const onClick = (event) => event.target === ref.current && onClose();
  return html`<dialog ref=${ref} aria-label=${title} onClose=${onClose} onClick=${onClick}>
    <header>
      <h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button>
    </header>
    ${children}
  </dialog>`;
}

/** A unified diff, its lines marked as added and removed; `whole`: however long. @param {{ patch: string, whole?: boolean }} props */
export function Diff({ patch, whole = false }) {
  const lines = useMemo(() => patch.replace(/\n$/, "").split("\n"), [patch]);
  const most = whole ? lines.length : LONGEST_DIFF;
  return html`<pre class="diff" tabindex="0"><code>${lines.slice(0, most).map((line) => {
    const kind = /^(\+\+\+|---|Index|diff|===)/.test(line)
      ? "head"
      : { "+": "added", "-": "removed", "@": "place" }[line[0] ?? ""];
    return html`<span class=${kind ?? ""}>${`${line}\n`}</span>`;
  })}${lines.length > most ? `… ${lines.length - most} more lines` : ""}</code></pre>`;
}

/** Say something for a moment, at the foot of the page. @param {string} text */
export function say(text) {
  notices.push(text);
  changed("notices");
  setTimeout(() => {
    notices.shift();
    changed("notices");
  }, 6000);
}
/** @type {string[]} */
const notices = [];

export function Notices() {
  useTopic("notices");
  return html`<div class="notices" role="status" aria-live="polite">${notices.map((text) => html`<p>${text}</p>`)}</div>`;
}

/** Do something that may fail, and say why. @param {() => Promise<any>} work */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(String(/** @type {Error} */ (error).message));
    return undefined;
  }
}
