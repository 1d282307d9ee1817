// Is all well, and what is running?

import { get, post, stream } from "./api.js";
import { progressAfter, statusOf } from "./changes.js";
import { showTooltips } from "./charts.js";
import { crew, storage } from "./crew.js";
import { ago, bar, clock, eta, nameOf, number, saying, state } from "./format.js";
import { html, render } from "./html.js";
import { SPANS, charts } from "./lately.js";
import { complain, connection, doing, tell } from "./notices.js";
import { t } from "./words.js";

const REFRESH = 10000;
const SOON = 800;
const RUNNING = 20;
const ENDED = 8;

export async function show(root, { query, left, shown }) {
  const page = new Page(root, SPANS.find((span) => String(span) === query.get("minutes")) ?? 60, left);
  await page.load();
  page.draw();
  showTooltips(root, left);
  shown();
  const off = stream("/api/events", ({ data }) => page.heard(data), connection(left));
  const timer = setInterval(() => page.refresh(), REFRESH);
  left.addEventListener("abort", () => {
    off();
    clearInterval(timer);
    clearTimeout(page.soon);
  });
}

class Page {
  constructor(root, minutes, left) {
    Object.assign(this, { root, minutes, left });
    this.soon = null;
  }

  async load() {
    const ask = (path) => get(path, { signal: this.left });
    const [overview, running, ended, system] = await Promise.all([
      ask(`/api/overview?minutes=${this.minutes}`),
      ask(`/api/jobs?status=processing&limit=${RUNNING}`),
      ask(`/api/jobs?status=completed,failed&limit=${ENDED}`),
      ask("/api/system"),
    ]);
    Object.assign(this, { overview, running: running.jobs, ended: ended.jobs, system });
  }

  async refresh() {
    try {
      await this.load();
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError" && error.code !== "OFFLINE") complain(error);
    }
  }

  heard(data) {
    const id = data.job?.id;
    const job = this.running.find((one) => one.job_id === id);
    if (job && statusOf(data) === "processing") {
      job.progress = progressAfter(job, data);
      this.drawRunning();
    } else if (id) this.soon ??= setTimeout(() => ((this.soon = null), this.refresh()), SOON);
  }

  draw() {
    const { jobs, oldest_wait_s: wait, workers, slots, busy } = this.overview;
    const fact = (count, status) => html`<a class="fact" href="#/jobs?status=${status}"><strong>${number(count)}</strong> <span>${state(status)}</span></a>`;
    const active = this.root.contains(document.activeElement) ? document.activeElement : null;
    const row = active?.closest("[data-id]")?.dataset.id;
    render(this.root, html`<h1 class="unseen">${t("menu.overview")}</h1>
      <section class="facts-row" aria-label="${t("overview.numbers")}">
        ${["pending", "processing", "completed", "failed"].map((status) => fact(jobs[status], status))}
        <p class="fact"><strong>${wait === null ? "–" : clock(wait)}</strong> <span>${t("overview.oldest")}</span></p>
        <a class="fact ${workers ? "" : "bad"}" href="#/system"><strong>${number(busy)} / ${number(slots)}</strong> <span>${t("overview.workers", { n: workers, count: number(workers) })}</span></a>
      </section>
      ${workers ? "" : html`<p class="card failure">${t("overview.no_workers")}</p>`}
      ${this.overview.of_user && html`<p class="faint">${t("overview.own", { user: this.overview.of_user })}</p>`}
      ${charts(this.overview, this.minutes)}
      <section aria-labelledby="running"><h2 id="running">${t("overview.running")}</h2><div id="running-list"></div></section>
      <div class="house"><section aria-labelledby="crew"><h2 id="crew">${t("system.workers")}</h2>${crew(this.overview.crew)}</section>
        <section aria-labelledby="storage"><h2 id="storage">${t("overview.storage")}</h2>${storage(this.system)}</section></div>
      <section aria-labelledby="ended"><h2 id="ended">${t("overview.ended")}</h2>${this.endedList()}</section>`);
    this.drawRunning();
    this.root.querySelector("#span").addEventListener("change", (event) => (location.hash = `#/overview?minutes=${event.target.value}`));
    const again = active?.id ? `#${CSS.escape(active.id)}` : row && `[data-id="${CSS.escape(row)}"]`;
    if (again) this.root.querySelector(again)?.focus({ preventScroll: true });
  }

  drawRunning() {
    const place = this.root.querySelector("#running-list");
    if (!place) return;
    if (!this.running.length) return void render(place, html`<p class="empty">${t("overview.idle")} <a href="#/new">${t("submit.title")}</a></p>`);
    const known = [...place.querySelectorAll("[data-id]")].map((row) => row.dataset.id).join();
    if (known !== this.running.map((job) => job.job_id).join()) this.drawRows(place);
    for (const job of this.running) {
      const row = place.querySelector(`[data-id="${CSS.escape(job.job_id)}"]`);
      row.querySelector("progress").value = job.progress.percent;
      row.querySelector(".said").textContent = saying(job.progress);
      row.querySelector(".left").textContent = [`${job.progress.percent} %`, eta(job)].filter(Boolean).join(" · ");
    }
    return undefined;
  }

  drawRows(place) {
    render(place, html`<ul class="running">${this.running.map((job) => html`<li data-row tabindex="0" data-id="${job.job_id}">
      <span class="kind">${job.job_type}</span> <a href="#/job/${job.job_id}">${nameOf(job)}</a> <span class="said faint"></span>${bar(job)}
      <span class="left"></span> <button type="button" class="quiet" data-key="c" data-cancel="${job.job_id}" aria-label="${t("do.cancel")}: ${nameOf(job)}">✕</button></li>`)}</ul>`);
    for (const button of place.querySelectorAll("[data-cancel]")) {
      button.addEventListener("click", () => doing(button, async () => {
        await post(`/api/jobs/${button.dataset.cancel}/cancel`);
        tell(t("done.cancel"));
      }));
    }
  }

  endedList() {
    if (!this.ended.length) return html`<p class="empty">${t("overview.none_ended")}</p>`;
    return html`<ul class="running ended">${this.ended.map((job) => html`<li data-row tabindex="0" data-id="${job.job_id}">${state(job.status)} <span class="kind">${job.job_type}</span>
      <a href="#/job/${job.job_id}">${nameOf(job)}</a> <span class="said faint">${job.error?.message ?? ""}</span> <span class="left">${ago(job.completed_at)}</span></li>`)}</ul>`;
  }
}
