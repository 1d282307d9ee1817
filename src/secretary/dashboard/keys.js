// The keyboard: the view marks its rows with `data-row` and its buttons with `data-key`.

import { element, html } from "./html.js";
import { t } from "./words.js";

const HELP = ["/", "n", "j", "k", "enter", "x", "r", "c", "?"];

const rows = () => [...document.querySelectorAll("#main [data-row]")];
const current = () => document.activeElement?.closest?.("[data-row]");

function move(by) {
  const all = rows();
  const at = all.indexOf(current());
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function press(name) {
  // Of the row that has the focus, else of the job that is shown; never of some row or other.
  const scope = current() ?? document.getElementById("actions");
  scope?.querySelector(`[data-key="${name}"]`)?.click();
}

const ACTIONS = {
  "/": () => document.querySelector("#search input").focus(),
  n: () => (location.hash = "#/new"),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => current()?.querySelector("a[href]")?.click(),
  x: () => current()?.querySelector('input[type="checkbox"]')?.click(),
  r: () => press("r"),
  c: () => press("c"),
  "?": () => showHelp(),
};

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "Enter" && !event.target.matches?.("[data-row]")) return;
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

export function showHelp() {
  const dialog = document.getElementById("dialog");
  dialog.replaceChildren(element(html`<form method="dialog"><h2 id="dialog-title">${t("shell.help")}</h2>
    <dl class="keys">${HELP.map((name) => html`<div><dt><kbd>${name}</kbd></dt><dd>${t(`key.${name}`)}</dd></div>`)}</dl>
    <p><a href="/api/doc">${t("shell.api")}</a></p>
    <p class="actions"><button autofocus>${t("shell.close")}</button></p></form>`));
  dialog.showModal();
}
