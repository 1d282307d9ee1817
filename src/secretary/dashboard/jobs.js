// The list of jobs: where is mine?

import { get, stream } from "./api.js";
import { drawBulk } from "./bulk.js";
import { hasEnded, progressAfter, statusOf } from "./changes.js";
import { ago, bar, duration, eta, exact, nameOf, number, saying, state, took } from "./format.js";
import { element, flag, html, render } from "./html.js";
import { announce, complain, connection } from "./notices.js";
import { t } from "./words.js";

const PAGE = 50;
const FILTERS = ["status", "job_type", "q", "user_id", "batch_id", "error_code", "created_after", "created_before", "archived"];
const STATES = ["pending", "processing", "completed", "failed", "cancelled"];
const LOOK_AGAIN = 1000;

export async function show(root, { query, left, shown }) {
  const filters = Object.fromEntries(FILTERS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  const cursor = query.get("cursor");
  const list = new List(root, filters, cursor, left);
  await list.load();
  list.draw();
  shown();
  const off = stream("/api/events", (event) => list.heard(event), connection(left));
  left.addEventListener("abort", off);
  if (list.searchedTo) await list.searchOn();
}

/** The address of the list with these filters. */
export function listAddress(filters) {
  const kept = Object.entries(filters).filter(([, value]) => value);
  return kept.length ? `#/jobs?${new URLSearchParams(kept)}` : "#/jobs";
}

class List {
  constructor(root, filters, cursor, left) {
    Object.assign(this, { root, filters, cursor, left });
    this.jobs = [];
    this.chosen = new Set();
    this.fitting = false; // not the chosen ones, but all that fit the filters
    this.fresh = null; // the newest page, while the shown one stays as it is
    this.looking = null;
  }

  async page(cursor, limit = PAGE) {
    const asked = { ...this.filters, limit, ...(cursor && { cursor }) };
    return get(`/api/jobs?${new URLSearchParams(asked)}`, { signal: this.left });
  }

  async load() {
    this.take(await this.page(this.cursor));
  }

  take({ jobs, next_cursor, searched_to }) {
    this.jobs = jobs;
    this.next = next_cursor;
    this.searchedTo = searched_to ?? null;
    this.fresh = null;
  }

  /** A search that takes long comes in short pages: they are put together until one is full. */
  async searchOn() {
    while (this.searchedTo && this.jobs.length < PAGE && !this.left.aborted) {
      const shown = this.jobs;
      const page = await this.page(this.next, PAGE - shown.length);
      if (this.jobs !== shown) return; // something newer is shown by now
      this.take({ ...page, jobs: [...shown, ...page.jobs] });
      const typing = this.root.contains(document.activeElement) && document.activeElement.closest("form, .bulk");
      if (page.jobs.length && !typing && !this.chosen.size) this.draw();
      else this.drawSearched();
    }
    if (!this.left.aborted) this.draw();
  }

  drawSearched() {
    const place = this.root.querySelector("#searched");
    place.textContent = this.searchedTo ? t("jobs.searched", { when: exact(this.searchedTo) }) : "";
  }

  draw() {
    render(this.root, html`
      <h1>${t("menu.jobs")}</h1>
      ${this.filterForm()}
      <div class="bulk" id="bulk" hidden></div>
      <p class="fresh"><button type="button" id="fresh" hidden></button></p>
      ${this.jobs.length ? this.table() : this.searchedTo ? "" : this.nothing()}
      <p class="faint" id="searched"></p>
      <nav class="pages" aria-label="${t("jobs.pages")}">
        ${this.cursor && html`<a class="button quiet" href="${listAddress(this.filters)}">${t("jobs.newest")}</a>`}
        ${this.next && html`<a class="button quiet" rel="next" href="${listAddress({ ...this.filters, cursor: this.next })}">${t("jobs.older")} →</a>`}
      </nav>`);
    this.listen();
    this.drawBulk();
    this.drawSearched();
  }

  filterForm() {
    const f = this.filters;
    const more = ["user_id", "batch_id", "error_code", "created_after", "created_before", "archived"].some((name) => f[name]);
    const field = (name, type = "text") => html`<label>${t(`filter.${name}`)} <input name="${name}" type="${type}" value="${local(f[name], type)}"></label>`;
    return html`<form id="filters" class="filters" aria-label="${t("jobs.filters")}">
      <div class="tabs states">${["", ...STATES].map((name) => html`<a href="${listAddress({ ...f, status: name })}"
        ${flag('aria-current="true"', (f.status ?? "") === name)}>${name ? state(name) : t("jobs.all")}</a>`)}</div>
      <div class="fields">${field("q", "search")} ${field("job_type")}
      <details ${flag("open", more)}><summary>${t("jobs.more")}</summary><div class="fields">
        ${field("user_id")} ${field("batch_id")} ${field("error_code")} ${field("created_after", "datetime-local")} ${field("created_before", "datetime-local")}
        <label>${t("filter.archived")} <select name="archived">${["", "true", "all"].map((value) => html`<option value="${value}"
          ${flag("selected", (f.archived ?? "") === value)}>${t(`archived.${value || "false"}`)}</option>`)}</select></label>
      </div></details>
      <button type="submit" class="quiet">${t("jobs.filter")}</button></div>
    </form>`;
  }

  table() {
    return html`<table class="list jobs"><caption class="unseen">${t("menu.jobs")}</caption><thead><tr>
      <th scope="col" class="pick"><input type="checkbox" id="all" aria-label="${t("jobs.choose_all")}"><span class="on-phone" aria-hidden="true">${t("jobs.choose_all")}</span></th>
      <th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th>
      <th scope="col">${t("col.progress")}</th><th scope="col">${t("col.created")}</th><th scope="col" class="num">${t("col.took")}</th>
    </tr></thead><tbody>${this.jobs.map((job) => this.row(job))}</tbody></table>`;
  }

  row(job) {
    const name = nameOf(job);
    const seconds = took(job);
    return html`<tr data-row tabindex="0" data-id="${job.job_id}">
      <td class="pick"><input type="checkbox" data-pick="${job.job_id}" aria-label="${t("jobs.choose", { name })}" ${flag("checked", this.chosen.has(job.job_id))}></td>
      <td class="cell-state">${state(job.status)}</td>
      <td class="cell-name"><a href="#/job/${job.job_id}">${name}</a>${job.user_id && html` <span class="faint">${job.user_id}</span>`}</td>
      <td class="cell-type">${job.job_type}</td>
      <td class="cell-progress">${said(job)}</td>
      <td class="cell-created">${ago(job.created_at)}</td>
      <td class="num">${seconds === null ? "" : duration(seconds)}</td></tr>`;
  }

  nothing() {
    const any = Object.keys(this.filters).length || this.cursor;
    return html`<section class="empty"><p>${any ? t("jobs.none_found") : t("jobs.none")}</p>
      <p>${any ? html`<a class="button quiet" href="#/jobs">${t("jobs.clear")}</a>` : html`<a class="button" href="#/new">+ ${t("menu.new")}</a>`}</p></section>`;
  }

  listen() {
    const form = this.root.querySelector("#filters");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, moment(name, value.trim())]));
      location.hash = listAddress({ status: this.filters.status, ...given });
    });
    this.root.querySelector("#fresh").addEventListener("click", () => {
      if (this.fresh) this.take(this.fresh);
      this.draw();
      this.root.querySelector("[data-row]")?.focus();
    });
    this.root.querySelector("#all")?.addEventListener("change", (event) => {
      this.chosen = new Set(event.target.checked ? this.jobs.map((job) => job.job_id) : []);
      this.fitting = false;
      for (const box of this.root.querySelectorAll("[data-pick]")) box.checked = event.target.checked;
      this.drawBulk();
    });
    this.root.querySelector("tbody")?.addEventListener("change", (event) => {
      const id = event.target.dataset.pick;
      if (id) this.chosen[event.target.checked ? "add" : "delete"](id);
      this.fitting = false;
      this.drawBulk();
    });
  }

  drawBulk() {
    const whole = this.jobs.length > 0 && this.chosen.size === this.jobs.length;
    const all = this.root.querySelector("#all");
    if (all) Object.assign(all, { checked: whole, indeterminate: !whole && this.chosen.size > 0 });
    drawBulk(this.root.querySelector("#bulk"), {
      ids: [...this.chosen],
      fitting: this.fitting ? this.filters : null,
      more: this.fitting || (whole && (this.next || this.cursor)),
      onFitting: () => ((this.fitting = !this.fitting), this.drawBulk()),
      onDone: () => this.again(),
      left: this.left,
    });
  }

  async again() {
    this.chosen.clear();
    this.fitting = false;
    await this.load();
    this.draw();
  }

  /** An event of the stream: a shown row changes in place; a new job is only counted. */
  heard({ data }) {
    const id = data.job?.id;
    if (!id) return;
    const job = this.jobs.find((one) => one.job_id === id);
    if (job) this.change(job, data);
    else if (!this.cursor && id > (this.jobs[0]?.job_id ?? "")) this.lookAgain();
  }

  change(job, data) {
    const before = job.status;
    job.status = statusOf(data);
    job.error = data.error ?? null;
    job.progress = progressAfter(job, data);
    if (job.status === "processing" && before !== "processing") job.processing_started_at = new Date().toISOString();
    if (job.status !== before) job.completed_at = hasEnded(job.status) ? new Date().toISOString() : null;
    if (job.status === "pending") job.processing_started_at = null;
    const row = this.root.querySelector(`tr[data-id="${CSS.escape(job.job_id)}"]`);
    if (!row) return;
    const next = element(html`<table><tbody>${this.row(job)}</tbody></table>`).querySelector("tr");
    // The row itself stays: it may have the focus.
    for (const name of [".cell-state", ".cell-progress", ".num"]) row.querySelector(name).replaceWith(next.querySelector(name));
  }

  lookAgain() {
    if (this.looking) return;
    this.looking = setTimeout(async () => {
      try {
        const page = await this.page();
        const known = new Set(this.jobs.map((job) => job.job_id));
        const count = page.jobs.filter((job) => !known.has(job.job_id)).length;
        if (count) this.offer(page, count);
      } catch (error) {
        if (error.name !== "AbortError" && error.code !== "OFFLINE") complain(error);
      } finally {
        this.looking = null;
      }
    }, LOOK_AGAIN);
    this.left.addEventListener("abort", () => clearTimeout(this.looking), { once: true });
  }

  offer(page, count) {
    this.fresh = page;
    const text = t("jobs.new", { n: count, count: count >= PAGE ? `${PAGE}+` : number(count) });
    const button = this.root.querySelector("#fresh");
    button.textContent = text;
    button.hidden = false;
    announce(text);
  }
}

/** How far a job is, or what became of it. */
export function said(job) {
  if (job.status === "processing") {
    return html`${bar(job)} <span class="faint">${job.progress.percent} % · ${saying(job.progress)} ${eta(job)}</span>`;
  }
  if (job.status === "failed") return html`<span class="code">${job.error?.code}</span> <span class="faint">${job.error?.message}</span>`;
  if (job.status === "pending" && job.error) return html`<span class="faint">${t("job.tried", { code: job.error.code })}</span>`;
  return "";
}

/** A filter of time: in the address in UTC, in the field as the clock on the wall says. */
const moment = (name, value) => (name.startsWith("created_") && value ? new Date(value).toISOString() : value);

function local(value, type) {
  if (!value || type !== "datetime-local") return value ?? "";
  const at = new Date(value);
  return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}
