// @ts-check
/** The field to write to the agent: text, files, the agent and the model. */

import * as api from "./api.js";
import * as store from "./store.js";
import {
  html,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useTopic,
  useLoaded,
  attempt,
  cls,
  say,
} from "./ui.js";

const LARGEST = 14 * 1024 * 1024; // bytes of files; the server takes 20 MB, and base64 adds a third

const DRAGS = /** @type {const} */ (["dragover", "dragleave", "drop"]);

/** @param {{ id: string, session: store.Plain }} props */
export function Composer({ id, session }) {
  useTopic(`draft ${id}`);
  const { text, files } = store.drafts(id);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [drop, setDrop] = useState(false);
  const [agent, setAgent] = useState("");
  const [model, setModel] = useState("");
  const known = useLoaded(() => definitions(session.directory), [session.directory]).value;
  const works = store.status(id) !== "idle";
  const write = (/** @type {string} */ value) => store.draft(id, value);
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const pressed = (event) => {
      const isTyped = event.target instanceof Element && event.target.matches("input, textarea, select, dialog *");
      if (event.key === "i" && !isTyped && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        field.current?.focus();
      }
      if (event.key !== "Escape" || document.querySelector("dialog")) return;
      field.current?.blur();
      if (works && Date.now() - escaped < 1000) attempt(() => api.post(`/session/${id}/abort`));
      escaped = Date.now();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [id, works]);
  useEffect(() => {
    // It grows with what is written.
    const box = field.current;
    if (!box) return;
    box.rows = Math.min(12, Math.max(2, text.split("\n").length));
  }, [text]);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    // What was typed since the last frame is not drawn yet.
    const { text, files } = store.drafts(id);
    if (!text.trim() && !files.length) return;
    store.draft(id, "", []);
    const chosen = { ...(agent ? { agent } : {}), ...(model ? { model: modelOf(model) } : {}) };
    const sent = await attempt(() => send(id, text, files, chosen, known?.commands ?? []));
    const since = store.drafts(id);
    if (!sent) store.draft(id, since.text ? `${text}\n${since.text}` : text, [...files, ...since.files]);
    field.current?.focus();
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const add = (/** @type {FileList | undefined | null} */ found) =>
    found?.length && attempt(() => attach(id, [...found]));
  useEffect(() => {
    // Also beside the field: a browser would leave the page for a file that is let go there.
    const dragged = (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      setDrop(event.type === "dragover");
      if (event.type === "drop") add(event.dataTransfer?.files);
    };
    for (const kind of DRAGS) addEventListener(kind, dragged);
    return () => {
      for (const kind of DRAGS) removeEventListener(kind, dragged);
    };
  }, [id]);
  const pasted = (/** @type {ClipboardEvent} */ event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };
  const models = useMemo(
    () =>
      (known?.providers ?? []).map(
        (/** @type {store.Plain} */ one) =>
          html`<optgroup label=${one.name}>${Object.values(one.models).map((/** @type {any} */ each) => html`<option value=${`${one.id}/${each.id}`}>${each.name}</option>`)}</optgroup>`,
      ),
    [known],
  );
  return html`<form class=${cls("composer", drop && "drop")} onSubmit=${submit} onPaste=${pasted}>
    ${
      files.length > 0 &&
      html`<ul class="files">${files.map(
        (file, index) => html`<li class="chip">
      ${file.mime.startsWith("image/") ? html`<img src=${file.url} alt="" />` : ""} ${file.filename}
      <button type="button" class="quiet" aria-label=${`Leave out ${file.filename}`} onClick=${() =>
        store.draft(
          id,
          text,
          files.filter((_, place) => place !== index),
        )}>✕</button>
    </li>`,
      )}</ul>`
    }
    <textarea ref=${field} aria-label="Message" placeholder=${works ? "Add to what it works on" : "Write to the agent; / for commands"} rows="2" value=${text}
      onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${pressed}></textarea>
    <div class="row">
      <${Commands} text=${text} commands=${known?.commands ?? []} onChoose=${(/** @type {string} */ name) => {
        write(`/${name} `);
        field.current?.focus();
      }} />
      <label class="button attach" title="Attach files"><span aria-hidden="true">+</span><input type="file" multiple aria-label="Attach files"
        onChange=${(/** @type {any} */ event) => {
          add(event.target.files);
          event.target.value = "";
        }} /></label>
      <select aria-label="Agent" value=${agent} onChange=${(/** @type {any} */ event) => setAgent(event.target.value)}>
        <option value="">${session.agent ?? "agent"}</option>
        ${(known?.agents ?? []).filter((/** @type {store.Plain} */ one) => one.name !== session.agent).map((/** @type {store.Plain} */ one) => html`<option value=${one.name}>${one.name}</option>`)}
      </select>
      <select aria-label="Model" class="model" value=${model} onChange=${(/** @type {any} */ event) => setModel(event.target.value)}>
        <option value="">${session.model ? `${session.model.providerID}/${session.model.id}` : "default model"}</option>
        ${models}
      </select>
      <span class="grow"></span>
      ${works && html`<button type="button" class="danger" onClick=${() => attempt(() => api.post(`/session/${id}/abort`))}>Stop</button>`}
      <button type="submit" class="primary" disabled=${!text.trim() && !files.length}>${works ? "Queue" : "Send"}</button>
    </div>
  </form>`;
}

let escaped = 0;

/** The commands whose name begins with what is typed. @param {{ text: string, commands: store.Plain[], onChoose: (name: string) => void }} props */
function Commands({ text, commands, onChoose }) {
  const typed = /^\/(\S*)$/.exec(text);
  const found = typed ? commands.filter((one) => one.name.startsWith(typed[1])).slice(0, 8) : [];
  if (!found.length) return null;
  return html`<ul class="commands">${found.map((one) => html`<li><button type="button" onClick=${() => onChoose(one.name)}><strong>/${one.name}</strong> <span class="muted">${one.description ?? ""}</span></button></li>`)}</ul>`;
}

/** @type {Map<string, Promise<{ agents: store.Plain[], providers: store.Plain[], commands: store.Plain[] }>>} */
const kept = new Map();

/** The agents, models and commands of a folder, asked for once. @param {string} directory */
function definitions(directory) {
  const ask = async () => {
    const at = (/** @type {string} */ path) => api.get(api.withQuery(path, { directory }));
    const [agents, providers, commands] = await Promise.all([at("/agent"), at("/config/providers"), at("/command")]);
    const chosen = agents.filter((/** @type {store.Plain} */ one) => one.mode !== "subagent" && !one.hidden);
    return { agents: chosen, providers: providers.providers, commands };
  };
  if (!kept.has(directory)) {
    kept.set(directory, ask());
    kept.get(directory)?.catch(() => kept.delete(directory));
  }
  return /** @type {ReturnType<typeof ask>} */ (kept.get(directory));
}
store.hear((event) => void (event.type === "instance.reloaded" && kept.clear()));

/** @param {string} name */
function modelOf(name) {
  const [providerID, ...rest] = name.split("/");
  return { providerID, modelID: rest.join("/") };
}

/**
 * Send a prompt, or run the command that it names. A command answers when its turn is over, so nobody waits for that.
 * @param {string} id @param {string} text @param {store.Plain[]} files @param {store.Plain} chosen @param {store.Plain[]} commands
 */
async function send(id, text, files, chosen, commands) {
  const named = /^\/(\S+)\s*([\s\S]*)$/.exec(text);
  if (named && commands.some((one) => one.name === named[1])) {
    const model = chosen.model ? { model: `${chosen.model.providerID}/${chosen.model.modelID}` } : {};
    const body = {
      command: named[1],
      arguments: named[2],
      ...(chosen.agent ? { agent: chosen.agent } : {}),
      ...model,
      ...(files.length ? { parts: files } : {}),
    };
    attempt(() => api.post(`/session/${id}/command`, body));
    return true;
  }
  const parts = [...(text.trim() ? [{ type: "text", text }] : []), ...files];
  await api.post(`/session/${id}/prompt_async`, { parts, ...chosen });
  return true;
}

/** Read files into the draft. @param {string} id @param {File[]} found */
async function attach(id, found) {
  const before = store.drafts(id).files;
  const size =
    found.reduce((sum, file) => sum + file.size, 0) + before.reduce((sum, file) => sum + file.url.length * 0.75, 0);
  if (size > LARGEST) return say("the files are larger than 14 MB together; name their paths in the message instead");
  const read = await Promise.all(
    found.map(async (file) => ({
      type: "file",
      mime: file.type || "text/plain",
      filename: file.name,
      url: await dataUrl(file),
    })),
  );
  const draft = store.drafts(id);
  store.draft(id, draft.text, [...draft.files, ...read]);
}

/** @param {File} file @returns {Promise<string>} */
function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () =>
      resolve(
        String(reader.result)
          .replace(/^data:;/, "data:text/plain;")
          .replace(/^data:[^;,]*/, `data:${file.type || "text/plain"}`),
      );
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
