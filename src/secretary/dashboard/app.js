// The app shell: routing, header, search and sign-in.

import { apiKey, get } from "./api.js";
import { enableDropzone } from "./dropzone.js";
import { refreshRelativeTimes } from "./format.js";
import { html, render } from "./html.js";
import { language, setLanguage, t } from "./i18n.js";
import { enableShortcuts, showHelp } from "./keyboard.js";
import { errorMessage, notifyError } from "./notifications.js";

/** Each view is a function `show(root, {id, query, signal, onReady})`, loaded when it is first needed. */
const VIEWS = {
  overview: async () => (await import("./overview.js")).show,
  jobs: async () => (await import("./jobs.js")).show,
  job: async () => (await import("./job.js")).show,
  new: async () => (await import("./submit.js")).show,
  batches: async () => (await import("./batches.js")).showList,
  batch: async () => (await import("./batches.js")).showBatch,
  templates: async () => (await import("./templates.js")).showList,
  template: async () => (await import("./templates.js")).showTemplate,
  system: async () => (await import("./system.js")).show,
};
const MENU = ["overview", "jobs", "batches", "templates", "system"];
const MENU_ENTRY = { job: "jobs", batch: "batches", template: "templates" };
const THEME_STORAGE = "secretary.theme";
const THEMES = { auto: "◐", light: "☀", dark: "☾" };

const main = document.getElementById("main");
const header = document.getElementById("header");
let leaveView = () => {};
let navigation = 0;

/** `#/jobs?status=failed` as {view: "jobs", id: "", query}. */
function currentRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const view = name in VIEWS ? name : "overview";
  return { view, id: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query) };
}

async function navigate() {
  const current = ++navigation;
  const { view, id, query } = currentRoute();
  leaveView();
  leaveView = () => {};
  drawHeader(view);
  document.title = `${t(`menu.${MENU_ENTRY[view] ?? view}`)} · Secretary`;
  try {
    const show = await VIEWS[view]();
    const root = document.createElement("div");
    root.className = `view view-${view}`;
    const controller = new AbortController();
    leaveView = () => controller.abort();
    // The previous view stays until the new one has something to show.
    const onReady = () => current === navigation && mount(root);
    await show(root, { id, query, signal: controller.signal, onReady });
    onReady();
  } catch (error) {
    if (current === navigation && error.name !== "AbortError") drawError(error);
  }
}

function mount(root) {
  if (main.firstElementChild === root) return;
  const focusedId = main.contains(document.activeElement) ? document.activeElement.id : null;
  const isFirst = !main.querySelector(".view");
  main.replaceChildren(root);
  window.scrollTo(0, 0);
  // Keep keyboard users in the content, on the same tab if the new view has it too.
  const counterpart = focusedId && document.getElementById(focusedId);
  if (counterpart) counterpart.focus({ preventScroll: true });
  else if (!isFirst && document.activeElement === document.body) main.focus({ preventScroll: true });
}

function drawError(error) {
  if (error.status === 401) return drawSignIn();
  render(main, html`<section class="empty" role="alert">
    <h1>${error.status === 404 ? t("error.not_found") : t("error.title")}</h1><p>${errorMessage(error)}</p>
    ${error.code && html`<p class="remedy">${t(`remedy.${error.code}`, {}, "")}</p>`}
    <p><button type="button" id="retry">${t("error.retry")}</button> <a class="button secondary" href="#/jobs">${t("menu.jobs")}</a></p>
  </section>`);
  main.querySelector("#retry").addEventListener("click", navigate);
}

/** Asks for the API key. It is stored for this tab only. */
function drawSignIn() {
  if (main.querySelector("#sign-in")) return;
  const hadKey = apiKey.get() !== null;
  apiKey.clear();
  render(main, html`<section class="narrow"><form id="sign-in" class="card">
    <h1>${t("login.title")}</h1><p>${t("login.hint")}</p>
    <label for="key">${t("login.key")}</label>
    <input id="key" name="key" type="password" autocomplete="current-password" required aria-describedby="sign-in-error">
    <p id="sign-in-error" class="form-error" role="alert">${hadKey ? t("login.invalid") : ""}</p>
    <p><button type="submit">${t("login.sign_in")}</button></p>
  </form></section>`);
  const form = main.querySelector("#sign-in");
  form.elements.key.focus();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(form);
  });
}

async function signIn(form) {
  apiKey.set(form.elements.key.value.trim());
  try {
    await get("/api/job-types");
    form.remove();
    navigate();
  } catch (error) {
    apiKey.clear();
    main.querySelector("#sign-in-error").textContent = error.status === 401 ? t("login.invalid") : errorMessage(error);
    form.elements.key.select();
  }
}

function drawHeader(view) {
  const active = MENU_ENTRY[view] ?? view;
  const otherLanguage = language() === "de" ? "en" : "de";
  const theme = localStorage.getItem(THEME_STORAGE) ?? "auto";
  document.documentElement.lang = language();
  document.documentElement.dataset.theme = theme;
  document.getElementById("skip").textContent = t("shell.skip");
  render(header, html`
    <a class="brand" href="#/overview"><img src="/dashboard/icon.svg" alt="" width="22" height="22"> Secretary</a>
    <nav aria-label="${t("shell.menu")}">${MENU.map((name) =>
      name === active ? html`<a href="#/${name}" aria-current="page">${t(`menu.${name}`)}</a>` : html`<a href="#/${name}">${t(`menu.${name}`)}</a>`)}
    </nav>
    <form id="search" role="search"><input type="search" name="q" maxlength="200" aria-label="${t("shell.search")}"
      placeholder="${t("shell.search")}" autocomplete="off"></form>
    <a class="button" href="#/new">+ <span class="label">${t("menu.new")}</span></a>
    <div class="tools">
      <button type="button" class="secondary" id="language" lang="${otherLanguage}" title="${t("shell.language")}">${otherLanguage}<span class="visually-hidden">: ${t("shell.language")}</span></button>
      <button type="button" class="secondary" id="theme" title="${t(`theme.${theme}`)}" aria-label="${t(`theme.${theme}`)}">${THEMES[theme]}</button>
      <button type="button" class="secondary" id="help" title="${t("shell.help")}" aria-label="${t("shell.help")}">?</button>
      ${apiKey.get() && html`<button type="button" class="secondary" id="sign-out">${t("login.sign_out")}</button>`}
    </div>`);
  header.querySelector("#search").addEventListener("submit", search);
  header.querySelector("#language").addEventListener("click", () => (setLanguage(otherLanguage), navigate()));
  header.querySelector("#theme").addEventListener("click", nextTheme);
  header.querySelector("#help").addEventListener("click", showHelp);
  header.querySelector("#sign-out")?.addEventListener("click", () => (apiKey.clear(), location.reload()));
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const current = localStorage.getItem(THEME_STORAGE) ?? "auto";
  localStorage.setItem(THEME_STORAGE, names[(names.indexOf(current) + 1) % names.length]);
  drawHeader(currentRoute().view);
  header.querySelector("#theme").focus();
}

/** A complete ID opens its job or batch; anything else searches the job list. */
async function search(event) {
  event.preventDefault();
  const text = new FormData(event.target).get("q").trim();
  if (/^(job|batch)-[0-9a-f-]{36}$/.test(text)) {
    const view = text.startsWith("job") ? "job" : "batch";
    try {
      await get(`/api/${view === "job" ? "jobs" : "batches"}/${text}`);
      location.hash = `#/${view}/${text}`;
    } catch (error) {
      notifyError(error);
    }
    return;
  }
  location.hash = text ? `#/jobs?${new URLSearchParams({ q: text })}` : "#/jobs";
}

window.addEventListener("hashchange", navigate);
window.addEventListener("unauthorized", () => {
  leaveView();
  navigation += 1;
  drawSignIn();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
setInterval(refreshRelativeTimes, 5000);
enableShortcuts();
enableDropzone();
navigate();
