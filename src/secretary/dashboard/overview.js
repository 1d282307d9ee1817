// Is all well, and what is running?

import { get, post, stream } from "./api.js";
import { bars, line } from "./charts.js";
import { ago, bar, clock, duration, eta, nameOf, number, saying, state } from "./format.js";
import { flag, html, render } from "./html.js";
import { statusOf } from "./jobs.js";
import { complain, connection, doing, tell } from "./notices.js";
import { language, t } from "./words.js";

const REFRESH = 10000;
const SOON = 800;
const SPANS = [60, 360, 1440];
const RUNNING = 20;
const ENDED = 8;

export async function show(root, { query, left, shown }) {
  const page = new Page(root, SPANS.find((span) => String(span) === query.get("minutes")) ?? 60, left);
  await page.load();
  page.draw();
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
    const [overview, running, ended] = await Promise.all([
      ask(`/api/overview?minutes=${this.minutes}`),
      ask(`/api/jobs?status=processing&limit=${RUNNING}`),
      ask(`/api/jobs?status=completed,failed&limit=${ENDED}`),
    ]);
    Object.assign(this, { overview, running: running.jobs, ended: ended.jobs });
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
      job.progress = { ...job.progress, message: data.message, percent: data.data?.progress ?? 0 };
      this.drawRunning();
    } else if (id) this.soon ??= setTimeout(() => ((this.soon = null), this.refresh()), SOON);
  }

  draw() {
    const { jobs, oldest_wait_s: wait, workers, slots } = this.overview;
    const fact = (count, status) => html`<a class="fact" href="#/jobs?status=${status}"><strong>${number(count)}</strong> <span>${state(status)}</span></a>`;
    const active = this.root.contains(document.activeElement) ? document.activeElement : null;
    const row = active?.closest("[data-id]")?.dataset.id;
    render(this.root, html`<h1 class="unseen">${t("menu.overview")}</h1>
      <section class="facts-row" aria-label="${t("overview.numbers")}">
        ${["pending", "processing", "completed", "failed"].map((status) => fact(jobs[status], status))}
        <p class="fact"><strong>${wait === null ? "–" : clock(wait)}</strong> <span>${t("overview.oldest")}</span></p>
        <a class="fact ${workers ? "" : "bad"}" href="#/system"><strong>${number(workers)}</strong> <span>${t("overview.workers", { n: workers, slots: number(slots) })}</span></a>
      </section>
      ${workers ? "" : html`<p class="card failure">${t("overview.no_workers")}</p>`}
      ${this.charts()}
      <section aria-labelledby="running"><h2 id="running">${t("overview.running")}</h2><div id="running-list"></div></section>
      <section aria-labelledby="ended"><h2 id="ended">${t("overview.ended")}</h2>${this.endedList()}</section>`);
    this.drawRunning();
    this.root.querySelector("#span").addEventListener("change", (event) => (location.hash = `#/overview?minutes=${event.target.value}`));
    const again = active?.id ? `#${CSS.escape(active.id)}` : row && `[data-id="${CSS.escape(row)}"]`;
    if (again) this.root.querySelector(again)?.focus({ preventScroll: true });
  }

  charts() {
    const { series, is_partial: partial } = this.overview;
    const label = (point) => new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit" }).format(new Date(point.from));
    const points = (read) => series.map((point) => ({ label: label(point), values: read(point) }));
    const sum = (name) => series.reduce((total, point) => total + point[name], 0);
    const codes = [...new Set(series.flatMap((point) => Object.keys(point.failures)))].sort();
    const waits = series.map((point) => point.wait_p95_s).filter((one) => one !== null);
    return html`<section class="charts" aria-label="${t("overview.charts")}">
      ${bars({ title: t("chart.done"), value: number(sum("completed")), points: points((p) => [p.completed]), names: [t("state.completed")], classes: ["is-completed"] })}
      ${line({ title: t("chart.wait"), value: waits.length ? duration(Math.max(...waits)) : "–", points: points((p) => [p.wait_p95_s ?? 0]), name: t("chart.wait"), told: duration })}
      ${bars({ title: t("chart.failed"), value: number(sum("failed")), points: points((p) => codes.map((code) => p.failures[code] ?? 0)), names: codes.length ? codes : [t("state.failed")],
        classes: codes.map((_, i) => `shade-${i % 4}`) })}
      <p class="span"><label for="span">${t("overview.span")}</label> <select id="span">${SPANS.map((span) => html`<option value="${span}" ${flag("selected", span === this.minutes)}>${t(`span.${span}`)}</option>`)}</select>
      ${partial && html`<span class="tag">${t("overview.partial")}</span>`}</p></section>`;
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
