// @ts-check
/** The page: logs in, follows the events, and shows the view that the address names. */

import * as api from "./api.js";
import {
  html,
  render,
  useState,
  useEffect,
  useLayoutEffect,
  useTopic,
  changed,
  Problem,
  Notices,
  Dialog,
} from "./ui.js";
import * as store from "./store.js";
import { Sessions } from "./sessions.js";
import { Evolution } from "./evolution.js";
import { Overview } from "./overview.js";

/** The views by the first word of the address's hash; each is given the words after it. */
const VIEWS = [
  { name: "sessions", title: "Sessions", view: Sessions },
  { name: "evolution", title: "Evolution", view: Evolution },
  { name: "overview", title: "Overview", view: Overview },
];

const SHORTCUTS = [
  ["?", "list the shortcuts"],
  ["g s, g e, g o", "go to the sessions, the evolution, the overview"],
  ["/", "search"],
  ["n", "new session"],
  ["j, k", "next, previous session"],
  ["i", "write to the agent"],
  ["Enter, Shift+Enter", "send, new line"],
  ["Escape", "leave a field; twice: end the turn"],
  ["y, a, r", "answer what waits: once, always, reject"],
];

/** @type {string} */
let waiting = "";

/** A word of the address; one that somebody typed with a lone % stays as it is. @param {string} word */
function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

function words() {
  const found = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  return VIEWS.some((one) => one.name === found[0]) ? found : ["sessions"];
}

function Page() {
  const [[name, ...rest], setWords] = useState(words);
  const [help, setHelp] = useState(false);
  useTopic("connection");
  useTopic("asks");
  useLayoutEffect(() => {
    const moved = () => setWords(words());
    /** @param {KeyboardEvent} event */
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
      const chord = waiting + event.key;
      waiting = event.key === "g" ? "g" : "";
      const view = VIEWS.find((one) => chord === `g${one.name[0]}`);
      if (event.key === "?") setHelp(true);
      else if (view) location.hash = `#/${view.name}`;
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", pressed);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("keydown", pressed);
    };
  }, []);
  const view = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
  const asks = store.asks().length;
  useEffect(() => {
    document.title = `${asks ? `(${asks}) ` : ""}${view?.title} – instar`;
  }, [view, asks]);
  return html`<a class="skip" href="#main" onClick=${skip}>To the content</a>
    <header class="top">
      <nav aria-label="Views">
        <strong class="brand">instar</strong>
        ${VIEWS.map((one) => html`<a href=${`#/${one.name}`} aria-current=${one === view ? "page" : null}>${one.title}</a>`)}
      </nav>
      <span class="state" role="status">${{ none: "not connected, trying again …", begin: "connecting …" }[store.connection()] ?? ""}</span>
      <button type="button" class="quiet" aria-label="Shortcuts" onClick=${() => setHelp(true)}>?</button>
      ${store.mayLogOut() && html`<button type="button" class="quiet" onClick=${api.logOut}>Log out</button>`}
    </header>
    <main id="main" tabindex="-1"><${view?.view} words=${rest} /></main>
    ${
      help &&
      html`<${Dialog} title="Shortcuts" onClose=${() => setHelp(false)}>
      <dl class="shortcuts">${SHORTCUTS.map(([keys, what]) => html`<div><dt><kbd>${keys}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <//>`
    }
    <${Notices} />`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Whether a key that is pressed there is typed. @param {EventTarget | null} target */
const isField = (target) => target instanceof Element && target.matches("input, textarea, select, dialog *");

/** @param {{ place: string, problem: string, again: boolean, onDone: () => void }} props */
function Login({ place, problem, again, onDone }) {
  const [password, setPassword] = useState("");
  const [wrong, setWrong] = useState(problem);
  const [keep, setKeep] = useState(false);
  const [busy, setBusy] = useState(false);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await api.logIn(keep ? { password, keep: "yes" } : { password });
      onDone();
    } catch (error) {
      setWrong(String(/** @type {Error} */ (error).message));
    }
    setBusy(false);
  };
  return html`<main class="login">
    <form onSubmit=${submit}>
      <h1>instar</h1>
      <p>${again ? "The server was started anew, or the login has ended. " : ""}The password is in <code>${place}</code>. <code>instar open</code> logs in by itself.</p>
      <input type="text" name="username" value="instar" autocomplete="username" hidden />
      <label for="password">Password</label>
      <input id="password" type="password" autocomplete="current-password" autofocus required value=${password}
        onInput=${(/** @type {any} */ event) => setPassword(event.target.value)} />
      ${
        api.mayKeep &&
        html`<label class="option"><input type="checkbox" checked=${keep} onChange=${() => setKeep(!keep)} />
          <span>Keep this device logged in. <span class="muted">Not on the machine where the agent works: its programs could read what the browser keeps.</span></span></label>`
      }
      <${Problem} text=${wrong} />
      <button type="submit" disabled=${busy}>Log in</button>
    </form>
  </main>`;
}

/** What stands there stays under the login, so that a draft outlives a server that was started anew. */
function App() {
  const [state, setState] = useState(/** @type {any} */ (null));
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (given.has("directory")) store.chooseDirectory(given.get("directory") ?? "");
    if (given.has("ticket")) history.replaceState(null, "", `${location.pathname}#/${given.get("view") ?? ""}`);
    api.onLost(() => setState((/** @type {any} */ old) => ({ ...old, needed: true })));
    api.begin(given.get("ticket")).then(
      (found) => {
        store.mayLogOut(found.place !== "");
        setState(found);
      },
      (error) => setState({ failed: String(error.message) }),
    );
  }, []);
  const ready = state && !state.needed && !state.failed;
  useEffect(() => {
    if (!ready) return undefined;
    const stop = new AbortController();
    setTimes((old) => old + 1);
    store.begin(stop.signal);
    return () => stop.abort();
  }, [ready]);
  if (!state) return html`<p class="empty">Loading …</p>`;
  if (state.failed) return html`<main class="login"><${Problem} text=${state.failed} /></main>`;
  const login =
    state.needed &&
    html`<${Login} place=${state.place} problem=${state.problem ?? ""} again=${times > 0} onDone=${() => setState({ ...state, needed: false, problem: "" })} />`;
  return html`${login}<div class="page" hidden=${Boolean(login)}>${(ready || times > 0) && html`<${Page} />`}</div>`;
}

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
changed("connection");
