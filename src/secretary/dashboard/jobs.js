// The job list with filters, live updates and bulk actions.

import { get, stream } from "./api.js";
import { drawBulkActions } from "./bulk_actions.js";
import { ago, dateTime, duration, number } from "./format.js";
import { element, flag, html, render } from "./html.js";
import { t } from "./i18n.js";
import { isFinished, jobName, progressAfter, progressCell, runTime, stateBadge, statusOf } from "./job_status.js";
import { announce, connectionStatus, notifyError } from "./notifications.js";

const PAGE_SIZE = 50;
const FILTERS = ["status", "job_type", "q", "user_id", "batch_id", "error_code", "created_after", "created_before", "archived"];
const MORE_FILTERS = ["user_id", "batch_id", "error_code", "created_after", "created_before", "archived"];
const STATES = ["pending", "processing", "completed", "failed", "cancelled"];
const REFRESH_DELAY = 1000;

export async function show(root, { query, signal, onReady }) {
  const filters = Object.fromEntries(FILTERS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  const list = new JobList(root, filters, query.get("cursor"), signal);
  await list.load();
  list.draw();
  onReady();
  const unsubscribe = stream("/api/events", (event) => list.onEvent(event), connectionStatus(signal));
  signal.addEventListener("abort", unsubscribe);
  if (list.searchedTo) await list.continueSearch();
}

/** The URL hash of the list with these filters. */
export function listHash(filters) {
  const active = Object.entries(filters).filter(([, value]) => value);
  return active.length ? `#/jobs?${new URLSearchParams(active)}` : "#/jobs";
}

class JobList {
  constructor(root, filters, cursor, signal) {
    Object.assign(this, { root, filters, cursor, signal });
    this.jobs = [];
    this.selected = new Set();
    this.allMatching = false; // all that match the filters are selected, on every page
    this.newestPage = null; // loaded, but not shown before the user asks for it
    this.refreshTimer = null;
  }

  async fetchPage(cursor, limit = PAGE_SIZE) {
    const query = { ...this.filters, limit, ...(cursor && { cursor }) };
    return get(`/api/jobs?${new URLSearchParams(query)}`, { signal: this.signal });
  }

  async load() {
    this.setPage(await this.fetchPage(this.cursor));
  }

  setPage({ jobs, next_cursor, searched_to }) {
    this.jobs = jobs;
    this.nextCursor = next_cursor;
    this.searchedTo = searched_to ?? null;
    this.newestPage = null;
  }

  /** A slow search returns short pages: fetches more until the page is full. */
  async continueSearch() {
    while (this.searchedTo && this.jobs.length < PAGE_SIZE && !this.signal.aborted) {
      const { jobs } = this;
      const page = await this.fetchPage(this.nextCursor, PAGE_SIZE - jobs.length);
      if (this.jobs !== jobs) return; // replaced by a newer page in the meantime
      this.setPage({ ...page, jobs: [...jobs, ...page.jobs] });
      const isTyping = this.root.contains(document.activeElement) && document.activeElement.closest("form, .bulk");
      if (page.jobs.length && !isTyping && !this.selected.size) this.draw();
      else this.drawSearchStatus();
    }
    if (!this.signal.aborted) this.draw();
  }

  drawSearchStatus() {
    this.root.querySelector("#search-status").textContent = this.searchedTo ? t("jobs.searched", { when: dateTime(this.searchedTo) }) : "";
  }

  draw() {
    render(this.root, html`
      <h1>${t("menu.jobs")}</h1>
      ${this.filterForm()}
      <div class="bulk" id="bulk" hidden></div>
      <p class="new-jobs"><button type="button" id="new-jobs" hidden></button></p>
      ${this.jobs.length ? this.table() : this.searchedTo ? "" : this.emptyState()}
      <p class="muted" id="search-status"></p>
      <nav class="pagination" aria-label="${t("jobs.pages")}">
        ${this.cursor && html`<a class="button secondary" href="${listHash(this.filters)}">${t("jobs.newest")}</a>`}
        ${this.nextCursor && html`<a class="button secondary" rel="next" href="${listHash({ ...this.filters, cursor: this.nextCursor })}">${t("jobs.older")} →</a>`}
      </nav>`);
    this.addListeners();
    this.drawBulkActions();
    this.drawSearchStatus();
  }

  filterForm() {
    const { filters } = this;
    const field = (name, type = "text") => html`<label>${t(`filter.${name}`)} <input name="${name}" type="${type}" value="${inputValue(filters[name], type)}"></label>`;
    return html`<form id="filters" class="filters" aria-label="${t("jobs.filters")}">
      <div class="tabs states">${["", ...STATES].map((status) => html`<a href="${listHash({ ...filters, status })}"
        ${flag('aria-current="true"', (filters.status ?? "") === status)}>${status ? stateBadge(status) : t("jobs.all")}</a>`)}</div>
      <div class="fields">${field("q", "search")} ${field("job_type")}
      <details ${flag("open", MORE_FILTERS.some((name) => filters[name]))}><summary>${t("jobs.more")}</summary><div class="fields">
        ${field("user_id")} ${field("batch_id")} ${field("error_code")} ${field("created_after", "datetime-local")} ${field("created_before", "datetime-local")}
        <label>${t("filter.archived")} <select name="archived">${["", "true", "all"].map((value) => html`<option value="${value}"
          ${flag("selected", (filters.archived ?? "") === value)}>${t(`archived.${value || "false"}`)}</option>`)}</select></label>
      </div></details>
      <button type="submit" class="secondary">${t("jobs.apply")}</button></div>
    </form>`;
  }

  table() {
    return html`<table class="list jobs"><caption class="visually-hidden">${t("menu.jobs")}</caption><thead><tr>
      <th scope="col" class="select"><input type="checkbox" id="select-all" aria-label="${t("jobs.select_all")}"><span class="mobile-only" aria-hidden="true">${t("jobs.select_all")}</span></th>
      <th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th>
      <th scope="col">${t("col.progress")}</th><th scope="col">${t("col.created")}</th><th scope="col" class="num">${t("col.duration")}</th>
    </tr></thead><tbody>${this.jobs.map((job) => this.row(job))}</tbody></table>`;
  }

  row(job) {
    const name = jobName(job);
    const seconds = runTime(job);
    return html`<tr data-row tabindex="0" data-id="${job.job_id}">
      <td class="select"><input type="checkbox" data-select="${job.job_id}" aria-label="${t("jobs.select", { name })}" ${flag("checked", this.selected.has(job.job_id))}></td>
      <td class="cell-state">${stateBadge(job.status)}</td>
      <td class="cell-name"><a href="#/job/${job.job_id}">${name}</a>${job.user_id && html` <span class="muted">${job.user_id}</span>`}</td>
      <td class="cell-type">${job.job_type}</td>
      <td class="cell-progress">${progressCell(job)}</td>
      <td class="cell-created">${ago(job.created_at)}</td>
      <td class="num">${seconds === null ? "" : duration(seconds)}</td></tr>`;
  }

  emptyState() {
    const isFiltered = Object.keys(this.filters).length || this.cursor;
    return html`<section class="empty"><p>${isFiltered ? t("jobs.no_match") : t("jobs.none")}</p>
      <p>${isFiltered ? html`<a class="button secondary" href="#/jobs">${t("jobs.clear")}</a>` : html`<a class="button" href="#/new">+ ${t("menu.new")}</a>`}</p></section>`;
  }

  addListeners() {
    const form = this.root.querySelector("#filters");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, filterValue(name, value.trim())]));
      location.hash = listHash({ status: this.filters.status, ...values });
    });
    this.root.querySelector("#new-jobs").addEventListener("click", () => {
      if (this.newestPage) this.setPage(this.newestPage);
      this.draw();
      this.root.querySelector("[data-row]")?.focus();
    });
    this.root.querySelector("#select-all")?.addEventListener("change", (event) => {
      this.selected = new Set(event.target.checked ? this.jobs.map((job) => job.job_id) : []);
      this.allMatching = false;
      for (const box of this.root.querySelectorAll("[data-select]")) box.checked = event.target.checked;
      this.drawBulkActions();
    });
    this.root.querySelector("tbody")?.addEventListener("change", (event) => {
      const id = event.target.dataset.select;
      if (id) this.selected[event.target.checked ? "add" : "delete"](id);
      this.allMatching = false;
      this.drawBulkActions();
    });
  }

  drawBulkActions() {
    const isPageSelected = this.jobs.length > 0 && this.selected.size === this.jobs.length;
    const selectAll = this.root.querySelector("#select-all");
    if (selectAll) Object.assign(selectAll, { checked: isPageSelected, indeterminate: !isPageSelected && this.selected.size > 0 });
    drawBulkActions(this.root.querySelector("#bulk"), {
      ids: [...this.selected],
      matching: this.allMatching ? this.filters : null,
      hasMore: this.allMatching || (isPageSelected && (this.nextCursor || this.cursor)),
      onToggleMatching: () => ((this.allMatching = !this.allMatching), this.drawBulkActions()),
      onDone: () => this.reload(),
      signal: this.signal,
    });
  }

  async reload() {
    this.selected.clear();
    this.allMatching = false;
    await this.load();
    this.draw();
  }

  /** Updates the row of a listed job; new jobs are only counted, so that rows never move under the pointer. */
  onEvent({ data }) {
    const id = data.job?.id;
    if (!id) return;
    const job = this.jobs.find((candidate) => candidate.job_id === id);
    if (job) this.updateRow(job, data);
    else if (!this.cursor && id > (this.jobs[0]?.job_id ?? "")) this.checkForNewJobs();
  }

  updateRow(job, data) {
    const before = job.status;
    job.status = statusOf(data);
    job.error = data.error ?? null;
    job.progress = progressAfter(job, data);
    if (job.status === "processing" && before !== "processing") job.processing_started_at = new Date().toISOString();
    if (job.status !== before) job.completed_at = isFinished(job.status) ? new Date().toISOString() : null;
    if (job.status === "pending") job.processing_started_at = null;
    const row = this.root.querySelector(`tr[data-id="${CSS.escape(job.job_id)}"]`);
    if (!row) return;
    const updated = element(html`<table><tbody>${this.row(job)}</tbody></table>`).querySelector("tr");
    // Only the cells are replaced: the row itself may have the focus.
    for (const cell of [".cell-state", ".cell-progress", ".num"]) row.querySelector(cell).replaceWith(updated.querySelector(cell));
  }

  checkForNewJobs() {
    if (this.refreshTimer) return;
    this.refreshTimer = setTimeout(async () => {
      try {
        const page = await this.fetchPage();
        const listed = new Set(this.jobs.map((job) => job.job_id));
        const count = page.jobs.filter((job) => !listed.has(job.job_id)).length;
        if (count) this.offerNewJobs(page, count);
      } catch (error) {
        if (error.name !== "AbortError" && error.code !== "OFFLINE") notifyError(error);
      } finally {
        this.refreshTimer = null;
      }
    }, REFRESH_DELAY);
    this.signal.addEventListener("abort", () => clearTimeout(this.refreshTimer), { once: true });
  }

  offerNewJobs(page, count) {
    this.newestPage = page;
    const text = t("jobs.new", { n: count, count: count >= PAGE_SIZE ? `${PAGE_SIZE}+` : number(count) });
    const button = this.root.querySelector("#new-jobs");
    button.textContent = text;
    button.hidden = false;
    announce(text);
  }
}

/** Time filters are UTC in the URL and local time in the form. */
const filterValue = (name, value) => (name.startsWith("created_") && value ? new Date(value).toISOString() : value);

function inputValue(value, type) {
  if (!value || type !== "datetime-local") return value ?? "";
  const date = new Date(value);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}
