// @ts-check
/** The list of sessions, and the one that is open. */

import { html, useState, useEffect, useTopic, useLoaded, cls, money, shortPath, Time, Problem } from "./ui.js";
import * as store from "./store.js";

/** @param {{ words: string[] }} props */
export function Sessions({ words }) {
  const [id] = words;
  return html`<div class=${cls("split", id && "one")}><${List} current=${id ?? ""} /></div>`;
}

/** @param {{ current: string }} props */
function List({ current }) {
  useTopic("sessions");
  const [search, setSearch] = useState("");
  const { error } = useLoaded(() => store.loadSessions(search), [search]);
  useEffect(() => void 0, []);
  return html`<aside class="list" aria-label="Sessions">
    <div class="tools">
      <input type="search" aria-label="Search sessions" placeholder="Search" value=${search}
        onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
    </div>
    <${Problem} text=${error} />
    <ul>${store.sessions().map((one) => html`<${Row} key=${one.id} session=${one} isCurrent=${one.id === current} />`)}</ul>
  </aside>`;
}

/** @param {{ session: store.Plain, isCurrent: boolean }} props */
function Row({ session, isCurrent }) {
  const state = store.waits(session.id) ? "waits" : store.status(session.id);
  return html`<li>
    <a href=${`#/sessions/${session.id}`} aria-current=${isCurrent ? "true" : null}>
      <span class="title">${session.title}</span>
      <span class="facts"><span class=${`dot ${state}`}></span>${{ waits: "waits for you", busy: "working", retry: "trying again" }[state] ?? ""}
        <${Time} time=${session.time.updated} /> ${money(session.cost ?? 0)} ${shortPath(session.directory)}</span>
    </a>
  </li>`;
}
