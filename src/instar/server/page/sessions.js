// @ts-check
/** The list of sessions, and the one that is open. */

import * as api from "./api.js";
import * as store from "./store.js";
import { Session } from "./session.js";
import {
  html,
  useState,
  useEffect,
  useLayoutEffect,
  useRef,
  useTopic,
  useLoaded,
  attempt,
  cls,
  money,
  shortPath,
  Time,
  Problem,
} from "./ui.js";

/** @param {{ words: string[] }} props */
export function Sessions({ words }) {
  const [id] = words;
  return html`<div class=${cls("split", id && "one")}>
    <${List} current=${id ?? ""} />
    ${id ? html`<${Session} key=${id} id=${id} />` : html`<section class="session"><p class="empty">Choose a session, or begin a new one.</p></section>`}
  </div>`;
}

/** Make a session in the folder that was chosen, and show it. */
const begin = () =>
  attempt(async () => {
    const made = await api.post(api.withQuery("/session", { directory: store.directory() }));
    location.hash = `#/sessions/${made.id}`;
  });

/** @param {{ current: string }} props */
function List({ current }) {
  useTopic("sessions");
  const [search, setSearch] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [wanted, setWanted] = useState("");
  const { error } = useLoaded(() => store.loadSessions(wanted), [wanted]);
  useEffect(() => {
    const timer = setTimeout(setWanted, 200, search);
    return () => clearTimeout(timer);
  }, [search]);
  const found = store.sessions();
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof Element && event.target.matches("input, textarea, select, dialog *")) return;
      const at = found.findIndex((one) => one.id === current);
      const other = { j: found[at + 1], k: found[at - 1] }[event.key];
      if (event.key === "/") {
        event.preventDefault();
        field.current?.focus();
      } else if (event.key === "n") begin();
      else if (other) location.hash = `#/sessions/${other.id}`;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  return html`<aside class="list" aria-label="Sessions">
    ${!current && html`<h1 class="unseen">Sessions</h1>`}
    <div class="tools">
      <input ref=${field} type="search" aria-label="Search sessions" placeholder="Search" value=${search}
        onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
      <button type="button" class="primary" onClick=${begin}>New</button>
    </div>
    ${
      store.folders().length > 1 &&
      html`<div class="tools"><select aria-label="Folder of new sessions" title="Folder of new sessions" value=${store.directory() ?? ""}
        onChange=${(/** @type {any} */ event) => store.chooseDirectory(event.target.value)}>
        <option value="">the server's folder</option>
        ${store.folders().map((one) => html`<option value=${one}>${shortPath(one)}</option>`)}
      </select></div>`
    }
    <${Problem} text=${error} />
    ${!found.length && html`<p class="empty">${search ? "No session says this." : "There is no session yet."}</p>`}
    <ul>${found.map((one) => html`<${Row} key=${one.id} session=${one} isCurrent=${one.id === current} />`)}</ul>
    ${store.hasMore() && html`<button type="button" class="quiet" onClick=${() => attempt(store.loadMore)}>Older sessions</button>`}
  </aside>`;
}

/** @param {{ session: store.Plain, isCurrent: boolean }} props */
function Row({ session, isCurrent }) {
  const state = store.waits(session.id) ? "waits" : store.status(session.id);
  const said = { waits: "waits for you", busy: "working", retry: "trying again", idle: "" }[state];
  return html`<li>
    <a href=${`#/sessions/${session.id}`} aria-current=${isCurrent ? "true" : null}>
      <span class="title">${session.title}</span>
      <span class="facts">
        ${said && html`<span class=${cls("live", state)}><span class=${cls("dot", state)}></span> ${said}</span>`}
        <${Time} time=${session.time.updated} /><span>${money(session.cost ?? 0)}</span><span title=${session.directory}>${shortPath(session.directory)}</span>
      </span>
    </a>
  </li>`;
}
