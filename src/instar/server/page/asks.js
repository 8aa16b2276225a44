// @ts-check
/** What waits for a person: calls that need a permission, and questions of the model. */

import * as api from "./api.js";
import * as store from "./store.js";
import { Code } from "./markdown.js";
import { html, useEffect, useLayoutEffect, useState, useTopic, attempt, visible, Diff } from "./ui.js";

const KEEP = "keep"; // whether what a call made, and what would run later, is kept: there is no "always"

const UNREAD = 500; // milliseconds for which what came up just now takes no answer: a key or a click was for what stood there before

/** @param {{ id: string }} props */
export function Asks({ id }) {
  useTopic("asks");
  const waiting = store.asks(id);
  const [first] = waiting;
  const [read, setRead] = useState("");
  const ready = read === first?.id;
  useEffect(() => {
    const timer = setTimeout(setRead, UNREAD, first?.id);
    return () => clearTimeout(timer);
  }, [first?.id]);
  useLayoutEffect(() => {
    /** @param {KeyboardEvent} event */
    const pressed = (event) => {
      const reply = { y: "once", a: "always", r: "reject" }[event.key];
      const isTyped = event.target instanceof Element && event.target.matches("input, textarea, select, dialog *");
      if (!reply || !first || first.questions || isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.repeat || !ready) return;
      if (reply === "always" && !mayAlways(first)) return;
      event.preventDefault();
      answer(first, reply);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [first, ready]);
  if (!first) return null;
  return html`<section class="asks" aria-label="Waits for you" aria-live="assertive">
    ${first.questions ? html`<${Questions} key=${first.id} asked=${first} />` : html`<${Permission} key=${first.id} asked=${first} root=${id} ready=${ready} />`}
    ${waiting.length > 1 && html`<p class="muted">${waiting.length - 1} more after this</p>`}
  </section>`;
}

/** @param {store.Plain} asked */
const mayAlways = (asked) => asked.permission !== KEEP && asked.always.length > 0;

/** @param {store.Plain} asked @param {string} reply @param {string} [message] */
const answer = (asked, reply, message) =>
  attempt(() =>
    api.post(api.withQuery(`/permission/${asked.id}/reply`, { directory: store.session(asked.sessionID)?.directory }), {
      reply,
      ...(message ? { message } : {}),
    }),
  );

/**
 * All that a call would do stands here: nothing is cut off, scrolled out of sight, or turned round by a control character.
 * @param {{ asked: store.Plain, root: string, ready: boolean }} props
 */
function Permission({ asked, root, ready }) {
  const [message, setMessage] = useState("");
  const keeps = asked.permission === KEEP;
  const { command, diff } = asked.metadata ?? {};
  return html`<h2>${keeps ? "A call made something that would run later. Keep it?" : html`Allow <code>${asked.permission}</code>?`}</h2>
    ${asked.sessionID !== root && html`<p class="muted">asked by a sub-agent: <a href=${`#/sessions/${asked.sessionID}`}>${store.session(asked.sessionID)?.title ?? asked.sessionID}</a></p>`}
    <div class="wanted">
      ${typeof command === "string" && command ? html`<${Code} text=${visible(command)} language="bash" />` : html`<ul class="patterns">${asked.patterns.map((/** @type {string} */ one) => html`<li><code>${visible(one)}</code></li>`)}</ul>`}
      ${typeof diff === "string" && diff && html`<${Diff} patch=${visible(diff)} whole />`}
    </div>
    <div class="row">
      <button type="button" class="primary" disabled=${!ready} onClick=${() => answer(asked, "once")}>${keeps ? "Keep" : "Once"} <kbd>y</kbd></button>
      ${mayAlways(asked) && html`<button type="button" disabled=${!ready} onClick=${() => answer(asked, "always")}>Always <kbd>a</kbd></button>`}
      <button type="button" class="danger" disabled=${!ready} onClick=${() => answer(asked, "reject", keeps ? "put it aside" : message)}>${keeps ? "Put aside" : "Reject"} <kbd>r</kbd></button>
      ${!keeps && html`<input aria-label="What to do instead" placeholder="rejected: what to do instead" value=${message} onInput=${(/** @type {any} */ event) => setMessage(event.target.value)} />`}
    </div>
    ${mayAlways(asked) && html`<p class="muted">“Always” allows from now on: ${asked.always.map((/** @type {string} */ one) => html`<code>${visible(one)}</code> `)}</p>`}`;
}

/** @param {{ asked: store.Plain }} props */
function Questions({ asked }) {
  const [answers, setAnswers] = useState(/** @type {string[][]} */ (asked.questions.map(() => [])));
  const [typed, setTyped] = useState(/** @type {string[]} */ (asked.questions.map(() => "")));
  const path = (/** @type {string} */ what) =>
    api.withQuery(`/question/${asked.id}/${what}`, { directory: store.session(asked.sessionID)?.directory });
  const given = answers.map((one, index) => [...one, ...(typed[index]?.trim() ? [typed[index] ?? ""] : [])]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(() => api.post(path("reply"), { answers: given }));
  };
  /** @param {number} index @param {string} label @param {boolean} several */
  const choose = (index, label, several) => {
    setAnswers(
      answers.map((one, place) =>
        place !== index
          ? one
          : !several
            ? [label]
            : one.includes(label)
              ? one.filter((each) => each !== label)
              : [...one, label],
      ),
    );
    if (!several) setTyped(typed.map((one, place) => (place === index ? "" : one)));
  };
  return html`<form onSubmit=${submit}>
    ${asked.questions.map(
      (/** @type {store.Plain} */ one, /** @type {number} */ index) => html`<fieldset>
      <legend>${one.question}</legend>
      ${one.options.map(
        (/** @type {store.Plain} */ option) => html`<label class="option">
        <input type=${one.multiple ? "checkbox" : "radio"} name=${`question ${index}`} checked=${answers[index]?.includes(option.label)} onChange=${() => choose(index, option.label, Boolean(one.multiple))} />
        <span>${option.label} <span class="muted">${option.description}</span></span>
      </label>`,
      )}
      ${
        one.custom !== false &&
        html`<input aria-label=${`Another answer to: ${one.question}`} placeholder="another answer" value=${typed[index]}
        onInput=${(/** @type {any} */ event) => setTyped(typed.map((old, place) => (place === index ? event.target.value : old)))} />`
      }
    </fieldset>`,
    )}
    <div class="row">
      <button type="submit" class="primary" disabled=${given.some((one) => !one.length)}>Answer</button>
      <button type="button" class="danger" onClick=${() => attempt(() => api.post(path("reject")))}>No answer</button>
    </div>
  </form>`;
}
