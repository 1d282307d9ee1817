// One batch: how far, what is left, what broke?

import { get, post, send, stream } from "./api.js";
import { STATES, ended, made, stateOf } from "./batches.js";
import { hasEnded, progressAfter, statusOf } from "./changes.js";
import { ago, nameOf, number, state } from "./format.js";
import { html, render } from "./html.js";
import { listAddress, said } from "./jobs.js";
import { announce, confirmed, connection, doing, tell } from "./notices.js";
import { t } from "./words.js";

const SHOWN = 100;

export async function show(root, { id, left, shown }) {
  const page = new Page(root, id, left);
  await page.load();
  page.draw();
  shown();
  page.follow();
}

class Page {
  constructor(root, id, left) {
    Object.assign(this, { root, id, left });
    this.off = () => {};
    left.addEventListener("abort", () => this.off());
  }

  get address() {
    return `/api/batches/${encodeURIComponent(this.id)}`;
  }

  async load() {
    const asked = new URLSearchParams({ batch_id: this.id, archived: "all", limit: SHOWN });
    const ask = (path) => get(path, { signal: this.left });
    const [batch, { jobs }] = await Promise.all([ask(this.address), ask(`/api/jobs?${asked}`)]);
    Object.assign(this, { batch, jobs });
    document.title = `${batch.batch_name} · Secretary`;
  }

  follow() {
    this.off();
    this.off = stream(`${this.address}/stream`, ({ data }) => this.heard(data), connection(this.left));
  }

  heard(data) {
    if (data.batch) {
      const before = this.batch.status;
      this.batch = { ...this.batch, ...data.data };
      this.drawHead();
      if (hasEnded(this.batch.status)) this.off();
      if (before !== this.batch.status) announce(`${this.batch.batch_name}: ${t(`state.${this.batch.status}`)}`);
      return;
    }
    const job = this.jobs.find((one) => one.job_id === data.job?.id);
    if (!job) return;
    job.status = statusOf(data);
    job.error = data.error ?? null;
    job.progress = progressAfter(job, data);
    const row = this.root.querySelector(`tr[data-id="${CSS.escape(job.job_id)}"]`);
    if (!row) return;
    render(row.querySelector(".cell-state"), state(job.status));
    render(row.querySelector(".cell-progress"), said(job));
  }

  draw() {
    render(this.root, html`<p class="crumbs"><a href="#/batches">${t("menu.batches")}</a></p>
      <header class="head"><div><h1>${this.batch.batch_name}</h1><p class="facts" id="facts"></p></div><div class="actions" id="actions"></div></header>
      <div class="card" id="made"></div>
      <table class="list"><caption class="unseen">${t("menu.jobs")}</caption><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th>
        <th scope="col">${t("col.progress")}</th></tr></thead><tbody>${this.jobs.map((job) => html`<tr data-row tabindex="0" data-id="${job.job_id}">
        <td class="cell-state">${state(job.status)}</td><td class="cell-name"><a href="#/job/${job.job_id}">${nameOf(job)}</a></td><td>${job.job_type}</td><td class="cell-progress">${said(job)}</td></tr>`)}</tbody></table>
      ${this.batch.total_jobs > SHOWN && html`<p><a href="${listAddress({ batch_id: this.id, archived: "all" })}">${t("batch.all", { count: number(this.batch.total_jobs) })}</a></p>`}`);
    this.drawHead();
  }

  drawHead() {
    const { batch } = this;
    const open = batch.pending_jobs + batch.processing_jobs > 0;
    render(this.root.querySelector("#facts"), html`${state(stateOf(batch))} <span>${t("job.created")} ${ago(batch.created_at)}</span>
      ${batch.user_id && html`<span>${t("job.by", { user: batch.user_id })}</span>`} <code class="id">${batch.batch_id}</code>`);
    render(this.root.querySelector("#made"), html`${made(batch)}<p><strong>${t("batch.ended", { ended: number(ended(batch)), total: number(batch.total_jobs) })}</strong>
      ${STATES.filter((name) => batch[`${name}_jobs`]).map((name) => html` <a href="${listAddress({ batch_id: this.id, status: name, archived: "all" })}">${state(name)} ${number(batch[`${name}_jobs`])}</a>`)}</p>`);
    const actions = [
      open && (batch.isActive ? "pause" : "resume"),
      open && "cancel",
      batch.failed_jobs > 0 && "restart-failed",
      batch.archived ? "unarchive" : "archive",
      !open && "delete",
    ].filter(Boolean);
    const place = this.root.querySelector("#actions");
    if (place.dataset.shown === actions.join()) return;
    place.dataset.shown = actions.join();
    render(place, actions.map((name) => html`<button type="button" class="${name === "resume" ? "" : "quiet"} ${name === "delete" ? "danger" : ""}" data-do="${name}">${t(`do.${name}`)}</button> `));
    for (const button of place.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => doing(button, () => this.act(button.dataset.do)));
    }
  }

  async act(name) {
    if (name === "delete" || name === "cancel") {
      if (!(await confirmed(t(`batch.sure_${name}`, { count: number(this.batch.total_jobs) }), t(`do.${name}`)))) return;
    }
    if (name === "delete") {
      await send("DELETE", this.address);
      location.hash = "#/batches";
    } else if (name === "pause" || name === "resume") {
      await post(`${this.address}/toggle-active`, { isActive: name === "resume" });
    } else {
      await post(`${this.address}/${name}`);
    }
    tell(t(`done.${name}`));
    if (name === "delete") return;
    await this.load();
    this.draw();
    this.follow();
  }
}
