// The shell: which view is shown, and what is round it.

import { get, key } from "./api.js";
import { askForKey } from "./login.js";
import { offerDrop } from "./drop.js";
import { tick } from "./format.js";
import { html, render } from "./html.js";
import { listenToKeys, showHelp } from "./keys.js";
import { complain, reason } from "./notices.js";
import { choose, language, t } from "./words.js";

const VIEWS = {
  overview: () => import("./overview.js"),
  jobs: () => import("./jobs.js"),
  job: () => import("./job.js"),
  new: () => import("./submit.js"),
  batches: () => import("./batches.js"),
  batch: () => import("./batch.js"),
  templates: () => import("./templates.js"),
  template: () => import("./template.js"),
  system: () => import("./system.js"),
};
const MENU = ["overview", "jobs", "batches", "templates", "system"];
const BELONGS = { job: "jobs", batch: "batches", template: "templates" };
const THEME = "secretary.theme";
const THEMES = { auto: "◐", light: "☀", dark: "☾" };

const main = document.getElementById("main");
const header = document.getElementById("header");
let leave = () => {};
let turn = 0;

/** `#/jobs?status=failed` as {view: "jobs", id: "", query}. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const view = name in VIEWS ? name : "overview";
  return { view, id: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query) };
}

async function show() {
  const mine = ++turn;
  const { view, id, query } = place();
  leave();
  leave = () => {};
  drawHeader(view);
  document.title = `${t(`menu.${BELONGS[view] ?? view}`)} · Secretary`;
  try {
    const { show } = await VIEWS[view]();
    const root = document.createElement("div");
    root.className = `view view-${view}`;
    const left = new AbortController();
    leave = () => left.abort();
    // The old view stays until the new one has something to show.
    await show(root, { id, query, left: left.signal, shown: () => mine === turn && swap(root) });
    if (mine === turn) swap(root);
  } catch (error) {
    if (mine === turn && error.name !== "AbortError") drawFailure(error);
  }
}

function swap(root) {
  if (main.firstElementChild === root) return;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : null;
  const first = !main.querySelector(".view");
  main.replaceChildren(root);
  window.scrollTo(0, 0);
  // Who goes from view to view by keyboard goes on from here, or from the same tab.
  const same = focused && document.getElementById(focused);
  if (same) same.focus({ preventScroll: true });
  else if (!first && document.activeElement === document.body) main.focus({ preventScroll: true });
}

function drawFailure(error) {
  if (error.status === 401) return askForKey(main, show);
  const missing = error.status === 404;
  render(main, html`<section class="empty" role="alert">
    <h1>${missing ? t("error.missing") : t("error.title")}</h1><p>${reason(error)}</p>
    ${error.code && html`<p class="remedy">${t(`remedy.${error.code}`, {}, "")}</p>`}
    <p><button type="button" id="again">${t("error.again")}</button> <a class="button quiet" href="#/jobs">${t("menu.jobs")}</a></p>
  </section>`);
  main.querySelector("#again").addEventListener("click", show);
}

function drawHeader(view) {
  const here = BELONGS[view] ?? view;
  const other = language() === "de" ? "en" : "de";
  const theme = localStorage.getItem(THEME) ?? "auto";
  document.documentElement.lang = language();
  document.documentElement.dataset.theme = theme;
  document.getElementById("skip").textContent = t("shell.skip");
  render(header, html`
    <a class="brand" href="#/overview"><img src="/dashboard/icon.svg" alt="" width="22" height="22"> Secretary</a>
    <nav aria-label="${t("shell.menu")}">${MENU.map((name) =>
      name === here ? html`<a href="#/${name}" aria-current="page">${t(`menu.${name}`)}</a>` : html`<a href="#/${name}">${t(`menu.${name}`)}</a>`)}
    </nav>
    <form id="search" role="search"><input type="search" name="q" maxlength="200" aria-label="${t("shell.search")}"
      placeholder="${t("shell.search")}" autocomplete="off"></form>
    <a class="button" href="#/new">+ ${t("menu.new")}</a>
    <div class="tools">
      <button type="button" class="quiet" id="language" lang="${other}" title="${t("shell.language")}">${other}<span class="unseen">: ${t("shell.language")}</span></button>
      <button type="button" class="quiet" id="theme" title="${t(`theme.${theme}`)}" aria-label="${t(`theme.${theme}`)}">${THEMES[theme]}</button>
      <button type="button" class="quiet" id="help" title="${t("shell.help")}" aria-label="${t("shell.help")}">?</button>
      ${key.get() && html`<button type="button" class="quiet" id="logout">${t("login.out")}</button>`}
    </div>`);
  header.querySelector("#search").addEventListener("submit", search);
  header.querySelector("#language").addEventListener("click", () => (choose(other), show()));
  header.querySelector("#theme").addEventListener("click", nextTheme);
  header.querySelector("#help").addEventListener("click", showHelp);
  header.querySelector("#logout")?.addEventListener("click", () => (key.clear(), location.reload()));
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const now = localStorage.getItem(THEME) ?? "auto";
  localStorage.setItem(THEME, names[(names.indexOf(now) + 1) % names.length]);
  drawHeader(place().view);
  header.querySelector("#theme").focus();
}

/** Who types a whole id wants that job or batch; all else is looked for in the list. */
async function search(event) {
  event.preventDefault();
  const text = new FormData(event.target).get("q").trim();
  if (/^(job|batch)-[0-9a-f-]{36}$/.test(text)) {
    const kind = text.startsWith("job") ? "job" : "batch";
    try {
      await get(`/api/${kind === "job" ? "jobs" : "batches"}/${text}`);
      location.hash = `#/${kind}/${text}`;
    } catch (error) {
      complain(error);
    }
    return;
  }
  location.hash = text ? `#/jobs?${new URLSearchParams({ q: text })}` : "#/jobs";
}

window.addEventListener("hashchange", show);
window.addEventListener("locked", () => {
  leave();
  turn += 1;
  askForKey(main, show);
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
setInterval(tick, 5000);
listenToKeys();
offerDrop();
show();
