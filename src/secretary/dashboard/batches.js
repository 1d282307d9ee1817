// The list of batches, and one batch with its jobs.

import { get, post, send, stream } from "./api.js";
import { shareBar } from "./charts.js";
import { ago, number } from "./format.js";
import { flag, html, render } from "./html.js";
import { t } from "./i18n.js";
import { isFinished, jobName, progressAfter, progressCell, stateBadge, statusOf } from "./job_status.js";
import { listHash } from "./jobs.js";
import { announce, confirm, connectionStatus, notify, runAction } from "./notifications.js";

const PAGE_SIZE = 50;
const MAX_JOBS = 100;
const STATES = ["completed", "failed", "cancelled", "processing", "pending"];

const stateOf = (batch) => (batch.isActive || isFinished(batch.status) ? batch.status : "paused");

function jobCounts(batch) {
  const counts = STATES.map((status) => batch[`${status}_jobs`]);
  const label = STATES.map((status, i) => `${t(`state.${status}`)} ${number(counts[i])}`).join(", ");
  return shareBar(counts, STATES.map((status) => `is-${status}`), label);
}

function finishedText(batch) {
  const finished = batch.completed_jobs + batch.failed_jobs + batch.cancelled_jobs;
  return t("batch.finished", { finished: number(finished), total: number(batch.total_jobs) });
}

export async function showList(root, { query, signal, onReady }) {
  const parameters = new URLSearchParams({ limit: PAGE_SIZE, ...Object.fromEntries(query) });
  const { batches, next_cursor: next } = await get(`/api/batches?${parameters}`, { signal });
  const archived = query.get("archived") === "true";
  const hash = (more = {}) => `#/batches?${new URLSearchParams({ ...(archived && { archived: "true" }), ...more })}`.replace(/\?$/, "");
  render(root, html`<h1>${t("menu.batches")}</h1>
    <div class="tabs"><a href="#/batches" ${flag('aria-current="true"', !archived)}>${t("batches.current")}</a><a href="#/batches?archived=true" ${flag('aria-current="true"', archived)}>${t("batches.archived")}</a></div>
    ${batches.length ? batchTable(batches) : html`<section class="empty"><p>${t(archived ? "batches.none_archived" : "batches.none")}</p>
    ${!archived && html`<p><a class="button" href="#/new">+ ${t("menu.new")}</a></p>`}</section>`}
    <nav class="pagination" aria-label="${t("jobs.pages")}">${query.get("cursor") && html`<a class="button secondary" href="${hash()}">${t("jobs.newest")}</a>`}
      ${next && html`<a class="button secondary" rel="next" href="${hash({ cursor: next })}">${t("jobs.older")} →</a>`}</nav>`);
  onReady();
  const unsubscribe = stream("/api/events", ({ data }) => data.batch && updateRow(root, data.data), connectionStatus(signal));
  signal.addEventListener("abort", unsubscribe);
}

function batchTable(batches) {
  return html`<table class="list"><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.progress")}</th>
    <th scope="col">${t("col.created")}</th></tr></thead><tbody>${batches.map((batch) => html`<tr data-row tabindex="0" data-id="${batch.batch_id}">${batchCells(batch)}</tr>`)}</tbody></table>`;
}

function batchCells(batch) {
  return html`<td class="cell-state">${stateBadge(stateOf(batch))}</td><td class="cell-name"><a href="#/batch/${batch.batch_id}">${batch.batch_name}</a></td>
    <td class="cell-progress">${jobCounts(batch)} <span class="muted">${finishedText(batch)}${batch.failed_jobs ? ` · ${t("batch.failed", { n: number(batch.failed_jobs) })}` : ""}</span></td>
    <td>${ago(batch.created_at)}</td>`;
}

function updateRow(root, batch) {
  const row = root.querySelector(`tr[data-id="${CSS.escape(batch.batch_id ?? "")}"]`);
  if (row && !row.contains(document.activeElement)) render(row, batchCells(batch));
}

export async function showBatch(root, { id, signal, onReady }) {
  const page = new BatchPage(root, id, signal);
  await page.load();
  page.draw();
  onReady();
  page.subscribe();
}

class BatchPage {
  constructor(root, id, signal) {
    Object.assign(this, { root, id, signal });
    this.unsubscribe = () => {};
    signal.addEventListener("abort", () => this.unsubscribe());
  }

  get path() {
    return `/api/batches/${encodeURIComponent(this.id)}`;
  }

  async load() {
    const query = new URLSearchParams({ batch_id: this.id, archived: "all", limit: MAX_JOBS });
    const fetch = (path) => get(path, { signal: this.signal });
    const [batch, { jobs }] = await Promise.all([fetch(this.path), fetch(`/api/jobs?${query}`)]);
    Object.assign(this, { batch, jobs });
    document.title = `${batch.batch_name} · Secretary`;
  }

  subscribe() {
    this.unsubscribe();
    this.unsubscribe = stream(`${this.path}/stream`, ({ data }) => this.onEvent(data), connectionStatus(this.signal));
  }

  onEvent(data) {
    if (data.batch) {
      const before = this.batch.status;
      this.batch = { ...this.batch, ...data.data };
      this.drawHead();
      if (isFinished(this.batch.status)) this.unsubscribe();
      if (before !== this.batch.status) announce(`${this.batch.batch_name}: ${t(`state.${this.batch.status}`)}`);
      return;
    }
    const job = this.jobs.find((candidate) => candidate.job_id === data.job?.id);
    if (!job) return;
    job.status = statusOf(data);
    job.error = data.error ?? null;
    job.progress = progressAfter(job, data);
    const row = this.root.querySelector(`tr[data-id="${CSS.escape(job.job_id)}"]`);
    if (!row) return;
    render(row.querySelector(".cell-state"), stateBadge(job.status));
    render(row.querySelector(".cell-progress"), progressCell(job));
  }

  draw() {
    render(this.root, html`<p class="breadcrumbs"><a href="#/batches">${t("menu.batches")}</a></p>
      <header class="head"><div><h1>${this.batch.batch_name}</h1><p class="facts" id="facts"></p></div><div class="actions" id="actions"></div></header>
      <div class="card" id="job-counts"></div>
      <table class="list"><caption class="visually-hidden">${t("menu.jobs")}</caption><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th>
        <th scope="col">${t("col.progress")}</th></tr></thead><tbody>${this.jobs.map((job) => html`<tr data-row tabindex="0" data-id="${job.job_id}">
        <td class="cell-state">${stateBadge(job.status)}</td><td class="cell-name"><a href="#/job/${job.job_id}">${jobName(job)}</a></td><td>${job.job_type}</td><td class="cell-progress">${progressCell(job)}</td></tr>`)}</tbody></table>
      ${this.batch.total_jobs > MAX_JOBS && html`<p><a href="${listHash({ batch_id: this.id, archived: "all" })}">${t("batch.all", { count: number(this.batch.total_jobs) })}</a></p>`}`);
    this.drawHead();
  }

  drawHead() {
    const { batch } = this;
    const isOpen = batch.pending_jobs + batch.processing_jobs > 0;
    render(this.root.querySelector("#facts"), html`${stateBadge(stateOf(batch))} <span>${t("job.created")} ${ago(batch.created_at)}</span>
      ${batch.user_id && html`<span>${t("job.by", { user: batch.user_id })}</span>`} <code class="id">${batch.batch_id}</code>`);
    render(this.root.querySelector("#job-counts"), html`${jobCounts(batch)}<p><strong>${finishedText(batch)}</strong>
      ${STATES.filter((status) => batch[`${status}_jobs`]).map((status) => html` <a href="${listHash({ batch_id: this.id, status, archived: "all" })}">${stateBadge(status)} ${number(batch[`${status}_jobs`])}</a>`)}</p>`);
    this.drawActions([
      isOpen && (batch.isActive ? "pause" : "resume"),
      isOpen && "cancel",
      batch.failed_jobs > 0 && "restart-failed",
      batch.archived ? "unarchive" : "archive",
      !isOpen && "delete",
    ].filter(Boolean));
  }

  drawActions(actions) {
    const container = this.root.querySelector("#actions");
    if (container.dataset.actions === actions.join()) return;
    container.dataset.actions = actions.join();
    render(container, actions.map((name) => html`<button type="button" class="${name === "resume" ? "" : "secondary"} ${name === "delete" ? "danger" : ""}" data-action="${name}">${t(`action.${name}`)}</button> `));
    for (const button of container.querySelectorAll("[data-action]")) {
      button.addEventListener("click", () => runAction(button, () => this.act(button.dataset.action)));
    }
  }

  async act(name) {
    if (name === "delete" || name === "cancel") {
      if (!(await confirm(t(`batch.confirm_${name}`, { count: number(this.batch.total_jobs) }), t(`action.${name}`)))) return;
    }
    if (name === "delete") {
      await send("DELETE", this.path);
      location.hash = "#/batches";
    } else if (name === "pause" || name === "resume") {
      await post(`${this.path}/toggle-active`, { isActive: name === "resume" });
    } else {
      await post(`${this.path}/${name}`);
    }
    notify(t(`toast.${name}`));
    if (name === "delete") return;
    await this.load();
    this.draw();
    this.subscribe();
  }
}
