// Toasts, connection status, screen reader announcements and confirmation dialogs.

import { element, html } from "./html.js";
import { t } from "./i18n.js";

const toasts = document.getElementById("toasts");
const TOAST_DURATION = 6000;
const MAX_TOASTS = 3;

function showToast(text, kind) {
  const toast = element(html`<p class="toast ${kind}"><span>${text}</span> <button type="button" class="secondary" aria-label="${t("shell.close")}">✕</button></p>`);
  toast.querySelector("button").addEventListener("click", () => toast.remove());
  toasts.append(toast);
  while (toasts.children.length > MAX_TOASTS) toasts.firstElementChild.remove();
  if (kind !== "error") setTimeout(() => toast.remove(), TOAST_DURATION);
}

export const notify = (text) => showToast(text, "success");

export const errorMessage = (error) => (error.code === "OFFLINE" ? t("error.offline") : error.message || String(error));

export function notifyError(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  showToast(errorMessage(error), "error");
}

/** An `onState` for `stream`: shows a toast as long as the connection is lost. */
export function connectionStatus(signal) {
  let toast = null;
  const clear = () => (toast?.remove(), (toast = null));
  signal.addEventListener("abort", clear);
  return (state) => {
    document.documentElement.dataset.stream = state;
    if (state !== "lost" || signal.aborted) return clear();
    if (toast) return undefined;
    toast = element(html`<p class="toast warning"><span>${t("error.disconnected")}</span></p>`);
    toasts.append(toast);
    return undefined;
  };
}

/** Announces a text to screen readers, once. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
}

/** Runs a button's action with the button disabled; errors become toasts. */
export async function runAction(button, action) {
  if (button.disabled) return;
  button.disabled = true;
  try {
    await action();
  } catch (error) {
    notifyError(error);
  } finally {
    button.disabled = false;
  }
}

/** Asks for confirmation; resolves to whether the user confirmed. */
export function confirm(question, confirmLabel) {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(element(html`<form method="dialog"><h2 id="dialog-title">${question}</h2>
    <p class="actions"><button value="yes" class="danger">${confirmLabel}</button> <button value="no" class="secondary" autofocus>${t("shell.back")}</button></p></form>`));
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
