// What is said above the view: what went wrong, what was done, and whether changes still come in.

import { element, html } from "./html.js";
import { t } from "./words.js";

const place = document.getElementById("notice");
const SHOWN_FOR = 6000;

function say(text, kind) {
  const note = element(html`<p class="note ${kind}"><span>${text}</span> <button type="button" class="quiet" aria-label="${t("shell.close")}">✕</button></p>`);
  note.querySelector("button").addEventListener("click", () => note.remove());
  place.append(note);
  while (place.children.length > 3) place.firstElementChild.remove();
  if (kind !== "bad") setTimeout(() => note.remove(), SHOWN_FOR);
}

export const tell = (text) => say(text, "good");

/** What an error says, in words. */
export const reason = (error) => (error.code === "OFFLINE" ? t("error.offline") : error.message || String(error));

export function complain(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  say(reason(error), "bad");
}

/** For `stream`: a lost stream says so and takes it back. */
export function connection(signal) {
  let note = null;
  const clear = () => (note?.remove(), (note = null));
  signal.addEventListener("abort", clear);
  return (state) => {
    document.documentElement.dataset.stream = state;
    if (state !== "lost" || signal.aborted) return clear();
    if (note) return undefined;
    note = element(html`<p class="note waiting"><span>${t("error.lost")}</span></p>`);
    place.append(note);
    return undefined;
  };
}

/** For those who hear the page: said once, politely. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
}

/** Does what a button promises; one click at a time. */
export async function doing(button, work) {
  if (button.disabled) return;
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    complain(error);
  } finally {
    button.disabled = false;
  }
}

/** Asks before what cannot be taken back. */
export function confirmed(question, yes) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(element(html`<form method="dialog"><h2 id="dialog-title">${question}</h2>
    <p class="actions"><button value="yes" class="danger">${yes}</button> <button value="no" class="quiet" autofocus>${t("shell.no")}</button></p></form>`));
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
