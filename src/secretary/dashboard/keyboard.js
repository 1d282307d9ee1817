// Keyboard shortcuts: views mark their rows with `data-row` and their buttons with `data-key`.

import { element, html } from "./html.js";
import { t } from "./i18n.js";

const SHORTCUTS = ["/", "n", "j", "k", "enter", "x", "r", "c", "?"];

const focusedRow = () => document.activeElement?.closest?.("[data-row]");

function moveFocus(offset) {
  const rows = [...document.querySelectorAll("#main [data-row]")];
  const current = rows.indexOf(focusedRow());
  const next = rows[current < 0 ? (offset > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, current + offset))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** Clicks the button of the focused row, else of the page's actions; never of an arbitrary row. */
function clickAction(key) {
  const scope = focusedRow() ?? document.getElementById("actions");
  scope?.querySelector(`[data-key="${key}"]`)?.click();
}

const HANDLERS = {
  "/": () => document.querySelector("#search input").focus(),
  n: () => (location.hash = "#/new"),
  j: () => moveFocus(1),
  k: () => moveFocus(-1),
  Enter: () => focusedRow()?.querySelector("a[href]")?.click(),
  x: () => focusedRow()?.querySelector('input[type="checkbox"]')?.click(),
  r: () => clickAction("r"),
  c: () => clickAction("c"),
  "?": () => showHelp(),
};

export function enableShortcuts() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "Enter" && !event.target.matches?.("[data-row]")) return;
    const handler = HANDLERS[event.key];
    if (!handler) return;
    event.preventDefault();
    handler();
  });
}

export function showHelp() {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(element(html`<form method="dialog"><h2 id="dialog-title">${t("shell.help")}</h2>
    <dl class="shortcuts">${SHORTCUTS.map((key) => html`<div><dt><kbd>${key}</kbd></dt><dd>${t(`key.${key}`)}</dd></div>`)}</dl>
    <p><a href="/api/doc">${t("shell.api")}</a></p>
    <p class="actions"><button autofocus>${t("shell.close")}</button></p></form>`));
  dialog.showModal();
}
