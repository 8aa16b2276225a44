// @ts-check
/** One session: its messages, what waits for an answer, and the field to write to the agent. */

import * as api from "./api.js";
import * as store from "./store.js";
import { Asks } from "./asks.js";
import { Composer } from "./composer.js";
import { Code, Markdown } from "./markdown.js";
import {
  html,
  useState,
  useEffect,
  useLayoutEffect,
  useRef,
  useTopic,
  useLoaded,
  visible,
  attempt,
  cls,
  duration,
  money,
  number,
  shortPath,
  Dialog,
  Diff,
  Problem,
  Time,
} from "./ui.js";

const NEAR = 80; // pixels from the end within which the view follows what is added
// Browsers look at each element that they may skip (content-visibility) in each frame: groups of messages are few.
const GROUP = 40;

/** @param {{ id: string }} props */
export function Session({ id }) {
  useTopic(id);
  const { error } = useLoaded(() => store.loadHistory(id).then(() => true), [id, store.history(id) === undefined]);
  const session = store.session(id);
  const found = store.history(id);
  if (error) return html`<section class="session"><${Problem} text=${error} /></section>`;
  if (!session || !found) return html`<section class="session"><p class="empty">Loading …</p></section>`;
  return html`<section class="session" aria-label=${session.title}>
    <${Head} session=${session} />
    <${Messages} key=${id} id=${id} history=${found} revert=${session.revert?.messageID} />
    <${Todos} todos=${session.todos ?? []} />
    ${session.revert && html`<${Reverted} id=${id} />`}
    <${Asks} id=${id} />
    <${Composer} key=${`to ${id}`} id=${id} session=${session} />
  </section>`;
}

/** @param {{ session: store.Plain }} props */
function Head({ session }) {
  const [dialog, setDialog] = useState("");
  const tokens = session.tokens ?? { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } };
  const all = tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write;
  const status = store.statusOf(session.id);
  const close = () => setDialog("");
  return html`<header class="session-top">
    <a class="back" href="#/sessions" aria-label="Back to the sessions">‹</a>
    <div class="named">
      <h1>${session.title}</h1>
      <p class="facts">
        ${session.parentID && html`<a href=${`#/sessions/${session.parentID}`}>parent session</a>`}
        <span class=${cls("dot", store.waits(session.id) ? "waits" : status?.type)}></span>
        <span role="status">${status?.type === "retry" ? `trying again: ${status.message ?? ""}` : store.waits(session.id) ? "waits for you" : status ? "working" : "idle"}</span>
        <span>${money(session.cost ?? 0)}</span><span>${number(all)} tokens</span>
        <span title=${session.directory}>${shortPath(session.directory)}</span>
        ${session.summary?.files ? html`<span>${session.summary.files} files +${session.summary.additions} −${session.summary.deletions}</span>` : ""}
      </p>
    </div>
    <details class="menu">
      <summary aria-label="More">⋯</summary>
      <div onClick=${(/** @type {any} */ event) => event.currentTarget.parentElement.removeAttribute("open")}>
        <button type="button" onClick=${() => setDialog("changes")}>Changed files</button>
        <button type="button" onClick=${() => fork(session.id)}>Fork</button>
        <button type="button" onClick=${() => setDialog("rename")}>Rename</button>
        <button type="button" onClick=${() => archive(session)}>Archive</button>
        <button type="button" class="danger" onClick=${() => setDialog("delete")}>Delete</button>
      </div>
    </details>
    ${dialog === "changes" && html`<${Changes} id=${session.id} onClose=${close} />`}
    ${dialog === "rename" && html`<${Rename} session=${session} onClose=${close} />`}
    ${dialog === "delete" && html`<${Delete} session=${session} onClose=${close} />`}
  </header>`;
}

/** Copy a session up to and without a message, and show the copy. @param {string} id @param {string} [messageID] */
const fork = (id, messageID) =>
  attempt(async () => {
    const copy = await api.post(`/session/${id}/fork`, messageID ? { messageID } : {});
    location.hash = `#/sessions/${copy.id}`;
  });

/** @param {store.Plain} session */
const archive = (session) =>
  attempt(async () => {
    await api.request("PATCH", `/session/${session.id}`, { time: { archived: Date.now() } });
    location.hash = "#/sessions";
  });

/** @param {{ id: string, onClose: () => void }} props */
function Changes({ id, onClose }) {
  const { value, error } = useLoaded(() => api.get(`/session/${id}/diff`), [id]);
  return html`<${Dialog} title="Changed files" onClose=${onClose}>
    <${Problem} text=${error} />
    ${value?.length === 0 && html`<p class="muted">This session changed no files.</p>`}
    ${value?.map((/** @type {store.Plain} */ one) => html`<h3>${one.file} <span class="muted">+${one.additions} −${one.deletions}</span></h3><${Diff} patch=${one.patch ?? ""} />`)}
  <//>`;
}

/** @param {{ session: store.Plain, onClose: () => void }} props */
function Rename({ session, onClose }) {
  const [title, setTitle] = useState(session.title);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(() => api.request("PATCH", `/session/${session.id}`, { title })).then(onClose);
  };
  return html`<${Dialog} title="Rename" onClose=${onClose}>
    <form class="row" onSubmit=${submit}>
      <input aria-label="Title" required value=${title} onInput=${(/** @type {any} */ event) => setTitle(event.target.value)} />
      <button type="submit">Rename</button>
    </form>
  <//>`;
}

/** @param {{ session: store.Plain, onClose: () => void }} props */
function Delete({ session, onClose }) {
  const remove = () =>
    attempt(async () => {
      await api.request("DELETE", `/session/${session.id}`);
      location.hash = "#/sessions";
    });
  return html`<${Dialog} title="Delete" onClose=${onClose}>
    <p>Delete “${session.title}” with its messages and its sub-agents' sessions? Files stay as they are.</p>
    <button type="button" class="danger" onClick=${remove}>Delete</button>
  <//>`;
}

/** @param {{ todos: store.Plain[] }} props */
function Todos({ todos }) {
  const left = todos.filter((one) => one.status !== "completed" && one.status !== "cancelled");
  if (!left.length) return null;
  return html`<details class="todos">
    <summary>${todos.length - left.length} of ${todos.length} done: ${left[0]?.content}</summary>
    <ul>${todos.map((one) => html`<li class=${one.status}>${one.status === "completed" ? "☑" : one.status === "in_progress" ? "▶" : "☐"} ${one.content}</li>`)}</ul>
  </details>`;
}

/** @param {{ id: string }} props */
function Reverted({ id }) {
  return html`<div class="band" role="status">
    <span>The session and its files are taken back to here. The next message drops what came after.</span>
    <button type="button" onClick=${() => attempt(() => api.post(`/session/${id}/unrevert`))}>Bring back</button>
  </div>`;
}

/** @param {{ id: string, history: store.History, revert: string | undefined }} props */
function Messages({ id, history, revert }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const inner = useRef(/** @type {HTMLElement | null} */ (null));
  const place = useRef({ follows: true, fromEnd: 0 });
  const nodes = useRef(/** @type {WeakMap<object, any>} */ (new WeakMap()));
  const start = useRef("");
  const all = store.messagesOf(history);
  const end = revert ? all.findIndex((one) => one.info.id === revert) : -1;
  const found = all.slice(0, end < 0 ? undefined : end);
  // Groups are counted from what was there first, so that earlier messages move no message to another group.
  let zero = found.findIndex((one) => one.info.id === start.current);
  if (zero < 0) {
    zero = 0;
    start.current = found[0]?.info.id;
  }
  const groups = /** @type {Map<number, any[]>} */ (new Map());
  found.forEach((message, index) => {
    // A message that did not change keeps its node, which is then not looked at again.
    let node = nodes.current.get(message);
    if (!node) {
      node = html`<${Message} key=${message.info.id} message=${message} />`;
      nodes.current.set(message, node);
    }
    const group = Math.floor((index - zero) / GROUP);
    groups.set(group, [...(groups.get(group) ?? []), node]);
  });
  useEffect(() => {
    const scroller = /** @type {HTMLElement} */ (box.current);
    const scrolled = () => {
      place.current.fromEnd = scroller.scrollHeight - scroller.scrollTop;
      place.current.follows = place.current.fromEnd - scroller.clientHeight < NEAR;
      if (scroller.scrollTop < 600) attempt(() => store.loadEarlier(id));
    };
    const sized = new ResizeObserver(() => {
      if (place.current.follows) scroller.scrollTop = scroller.scrollHeight;
    });
    sized.observe(/** @type {HTMLElement} */ (inner.current));
    sized.observe(scroller);
    scroller.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      sized.disconnect();
      scroller.removeEventListener("scroll", scrolled);
    };
  }, [id]);
  const first = found[0]?.info.id;
  useLayoutEffect(() => {
    // What was loaded above moves nothing of what is read.
    const scroller = /** @type {HTMLElement} */ (box.current);
    if (!place.current.follows) scroller.scrollTop = scroller.scrollHeight - place.current.fromEnd;
  }, [first]);
  return html`<div class="messages" ref=${box} tabindex="0" role="log" aria-label="Messages" aria-busy=${store.status(id) !== "idle"}>
    <div ref=${inner}>
      ${history.earlier && html`<button type="button" class="quiet" onClick=${() => attempt(() => store.loadEarlier(id))}>Earlier messages</button>`}
      ${!found.length && html`<p class="empty">Nothing was said yet.</p>`}
      ${[...groups].map(([group, drawn]) => html`<div key=${group} class="group">${drawn}</div>`)}
    </div>
  </div>`;
}

/** @param {{ message: store.Message }} props */
function Message({ message }) {
  const { info } = message;
  useTopic(info.id);
  const parts = message.parts.map((part) => html`<${Part} key=${part.id} message=${message} id=${part.id} />`);
  if (info.role === "user") {
    return html`<article class="message user" aria-label="You">
      ${parts}
      <footer class="facts"><${Time} time=${info.time.created} />
        <button type="button" class="quiet" onClick=${() => rewind(message)}>Rewind</button>
        <button type="button" class="quiet" onClick=${() => fork(info.sessionID, info.id)}>Fork</button>
      </footer>
    </article>`;
  }
  const tokens = info.tokens;
  return html`<article class="message agent" aria-label=${info.agent}>
    ${parts}
    ${info.error && html`<${Problem} text=${info.error.name === "MessageAbortedError" ? "stopped" : String(info.error.data?.message ?? info.error.name)} />`}
    ${
      info.time.completed &&
      info.finish !== "tool-calls" &&
      html`<footer class="facts">
      <span>${info.agent}</span><span>${info.providerID}/${info.modelID}</span><span>${duration(info.time.completed - info.time.created)}</span>
      <span>${money(info.cost)}</span><span>${number(tokens.input + tokens.cache.read + tokens.cache.write)} in, ${number(tokens.output + tokens.reasoning)} out</span>
    </footer>`
    }
  </article>`;
}

/** Take the session and its files back to before a message, and put its text where it can be written anew. @param {store.Message} message */
const rewind = ({ info, parts }) =>
  attempt(async () => {
    await api.post(`/session/${info.sessionID}/revert`, { messageID: info.id });
    store.draft(
      info.sessionID,
      parts
        .filter((one) => one.type === "text" && !one.synthetic)
        .map((one) => one.text)
        .join("\n"),
    );
  });

/** @param {{ message: store.Message, id: string }} props */
function Part({ message, id }) {
  useTopic(id);
  const part = message.parts.find((one) => one.id === id);
  if (!part) return null;
  const isUser = message.info.role === "user";
  switch (part.type) {
    case "text":
      if (part.ignored || !part.text) return null;
      if (part.synthetic) return isUser ? html`<${Folded} title="Added by instar" text=${part.text} />` : null;
      return isUser ? html`<p class="said">${part.text}</p>` : html`<${Markdown} text=${part.text} />`;
    case "reasoning":
      return part.text ? html`<${Folded} title="Thinking" text=${part.text} time=${part.time} />` : null;
    case "tool":
      return html`<${Tool} part=${part} />`;
    case "file":
      return html`<${File} file=${part} />`;
    case "agent":
      return html`<p class="chip">@${part.name}</p>`;
    case "subtask":
      return html`<p class="chip">${part.agent}: ${part.description}</p>`;
    case "retry":
      return html`<p class="muted">attempt ${part.attempt} failed: ${String(part.error?.data?.message ?? "")}</p>`;
    case "compaction":
      return html`<p class="rule">What stands above was summarised.</p>`;
    default:
      return null;
  }
}

/** Something long of which the title is enough; its inside is made when it is opened. @param {{ title: any, kind?: string, children: () => any, open?: boolean }} props */
function Fold({ title, kind, children, open = false }) {
  const [isOpen, setOpen] = useState(open);
  return html`<details class=${cls("fold", kind)} open=${isOpen} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary>${title}</summary>
    ${isOpen && html`<div class="inside">${children()}</div>`}
  </details>`;
}

/** @param {{ title: string, text: string, time?: store.Plain }} props */
const Folded = ({ title, text, time }) =>
  html`<${Fold} kind="quiet" title=${`${title}${time?.end ? ` ${duration(time.end - time.start)}` : ""}`}>${() => html`<${Markdown} text=${text} />`}<//>`;

const MARKS = /** @type {Record<string, string>} */ ({
  pending: "○",
  running: "◐",
  completed: "✓",
  error: "✗",
  waits: "◇",
});
/** What a tool of evolve says of a change that a person decides on. */
const WAITS = /It waits for a person as [0-9a-f]{8} \(/;

/** @param {{ part: store.Plain }} props */
function Tool({ part }) {
  const { state } = part;
  const metadata = state.metadata ?? {};
  const took = state.time?.end ? duration(state.time.end - state.time.start) : "";
  const title = visible(state.title || described(state.input ?? {}));
  const child = metadata.sessionId ?? metadata.sessionID;
  const status = state.status === "error" && WAITS.test(state.error) ? "waits" : state.status;
  return html`<${Fold} kind=${`tool ${status}`} title=${html`<span class="sign" aria-label=${status}>${MARKS[status] ?? ""}</span>
      <strong>${part.tool}</strong> <span class="what">${title}</span> <span class="muted">${took}</span>`}>
    ${() => html`
      ${typeof child === "string" && html`<p><a href=${`#/sessions/${child}`}>the sub-agent's session</a></p>`}
      ${state.input?.command ? html`<${Code} text=${String(state.input.command)} language="bash" />` : html`<${Code} text=${JSON.stringify(state.input ?? {}, null, 2)} language="json" />`}
      ${typeof metadata.diff === "string" && metadata.diff && html`<${Diff} patch=${metadata.diff} />`}
      ${state.status === "running" && metadata.output && html`<${Output} text=${String(metadata.output)} />`}
      ${state.status === "completed" && state.output && html`<${Output} text=${state.output} />`}
      ${status === "error" && html`<${Problem} text=${state.error} />`}
      ${status === "waits" && html`<${Output} text=${state.error} /><p><a href="#/evolution">Decide on it, or see what came of it</a></p>`}
      ${(state.attachments ?? []).map((/** @type {store.Plain} */ file) => html`<${File} file=${file} />`)}`}
  <//>`;
}

/** What a call is about before its tool has said so. @param {store.Plain} input */
const described = (input) =>
  String(input.command ?? input.filePath ?? input.pattern ?? input.description ?? input.url ?? input.query ?? "");

const LONGEST = 100_000;

/** @param {{ text: string }} props */
const Output = ({ text }) =>
  html`<pre class="output" tabindex="0">${text.length > LONGEST ? `${text.slice(0, LONGEST)}\n… ${number(text.length - LONGEST)} more characters` : text}</pre>`;

/** A file: an image that came along is shown, all else is named. @param {{ file: store.Plain }} props */
function File({ file }) {
  const name = file.filename || (file.url.startsWith("data:") ? file.mime : file.url);
  const isImage = /^data:image\/(png|jpeg|gif|webp|avif)[;,]/.test(file.url);
  return isImage ? html`<img class="picture" src=${file.url} alt=${name} />` : html`<p class="chip">${name}</p>`;
}
