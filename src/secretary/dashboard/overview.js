// The overview: key figures, throughput charts, running and recently finished jobs, workers, storage.

import { get, post, stream } from "./api.js";
import { barChart, enableTooltips, lineChart } from "./charts.js";
import { ago, clock, duration, number } from "./format.js";
import { flag, html, render } from "./html.js";
import { language, t } from "./i18n.js";
import { eta, jobName, progressAfter, progressBar, progressText, stateBadge, statusOf } from "./job_status.js";
import { connectionStatus, notify, notifyError, runAction } from "./notifications.js";
import { quotaUsage, storageUsage, workerList } from "./system.js";

const RANGES = [60, 360, 1440, 10080]; // minutes
const DAY = 1440;
const REFRESH_INTERVAL = 10000;
const REFRESH_DELAY = 800;
const MAX_RUNNING = 20;
const MAX_FINISHED = 8;
const MAX_SERIES = 5;

export async function show(root, { query, signal, onReady }) {
  const minutes = RANGES.find((range) => String(range) === query.get("minutes")) ?? 60;
  const overview = new Overview(root, minutes, signal);
  await overview.load();
  overview.draw();
  enableTooltips(root, signal);
  onReady();
  const unsubscribe = stream("/api/events", ({ data }) => overview.onEvent(data), connectionStatus(signal));
  const timer = setInterval(() => overview.refresh(), REFRESH_INTERVAL);
  signal.addEventListener("abort", () => {
    unsubscribe();
    clearInterval(timer);
    clearTimeout(overview.refreshTimer);
  });
}

class Overview {
  constructor(root, minutes, signal) {
    Object.assign(this, { root, minutes, signal });
    this.refreshTimer = null;
  }

  async load() {
    const fetch = (path) => get(path, { signal: this.signal });
    const [overview, running, finished, system] = await Promise.all([
      fetch(`/api/overview?minutes=${this.minutes}`),
      fetch(`/api/jobs?status=processing&limit=${MAX_RUNNING}`),
      fetch(`/api/jobs?status=completed,failed&limit=${MAX_FINISHED}`),
      fetch("/api/system"),
    ]);
    Object.assign(this, { overview, running: running.jobs, finished: finished.jobs, system });
  }

  async refresh() {
    try {
      await this.load();
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError" && error.code !== "OFFLINE") notifyError(error);
    }
  }

  onEvent(data) {
    const id = data.job?.id;
    const job = this.running.find((candidate) => candidate.job_id === id);
    if (job && statusOf(data) === "processing") {
      job.progress = progressAfter(job, data);
      this.drawRunning();
    } else if (id) this.refreshTimer ??= setTimeout(() => ((this.refreshTimer = null), this.refresh()), REFRESH_DELAY);
  }

  draw() {
    const { jobs, oldest_wait_s: longestWait, workers, slots, busy, crew: workerDetails } = this.overview;
    const stat = (count, status) => html`<a class="stat" href="#/jobs?status=${status}"><strong>${number(count)}</strong> <span>${stateBadge(status)}</span></a>`;
    const focused = this.root.contains(document.activeElement) ? document.activeElement : null;
    const focusedRow = focused?.closest("[data-id]")?.dataset.id;
    render(this.root, html`<h1 class="visually-hidden">${t("menu.overview")}</h1>
      <section class="stats" aria-label="${t("overview.stats")}">
        ${["pending", "processing", "completed", "failed"].map((status) => stat(jobs[status], status))}
        <p class="stat"><strong>${longestWait === null ? "–" : clock(longestWait)}</strong> <span>${t("overview.longest_wait")}</span></p>
        <a class="stat ${workers ? "" : "alert"}" href="#/system"><strong>${number(busy)} / ${number(slots)}</strong> <span>${t("overview.workers", { n: workers, count: number(workers) })}</span></a>
      </section>
      ${workers ? "" : html`<p class="card failure">${t("overview.no_workers")}</p>`}
      ${this.overview.of_user && html`<p class="muted">${t("overview.of_user", { user: this.overview.of_user })}</p>`}
      ${throughputCharts(this.overview, this.minutes)}
      <section aria-labelledby="running"><h2 id="running">${t("overview.running")}</h2><div id="running-list"></div></section>
      <div class="resources"><section aria-labelledby="workers"><h2 id="workers">${t("system.workers")}</h2>${workerList(workerDetails)}</section>
        <section aria-labelledby="storage"><h2 id="storage">${t("overview.storage")}</h2>${storageUsage(this.system)}</section>
        ${this.overview.quota || this.overview.usage ? html`<section aria-labelledby="quota"><h2 id="quota">${t(this.overview.quota ? "quota.title" : "quota.today")}</h2>${quotaUsage(this.overview)}</section>` : ""}</div>
      <section aria-labelledby="finished"><h2 id="finished">${t("overview.finished")}</h2>${this.finishedList()}</section>`);
    this.drawRunning();
    this.root.querySelector("#range").addEventListener("change", (event) => (location.hash = `#/overview?minutes=${event.target.value}`));
    const selector = focused?.id ? `#${CSS.escape(focused.id)}` : focusedRow && `[data-id="${CSS.escape(focusedRow)}"]`;
    if (selector) this.root.querySelector(selector)?.focus({ preventScroll: true });
  }

  drawRunning() {
    const container = this.root.querySelector("#running-list");
    if (!container) return;
    if (!this.running.length) return void render(container, html`<p class="empty">${t("overview.idle")} <a href="#/new">${t("submit.title")}</a></p>`);
    const drawnIds = [...container.querySelectorAll("[data-id]")].map((row) => row.dataset.id).join();
    if (drawnIds !== this.running.map((job) => job.job_id).join()) this.drawRows(container);
    for (const job of this.running) {
      const row = container.querySelector(`[data-id="${CSS.escape(job.job_id)}"]`);
      row.querySelector("progress").value = job.progress.percent;
      row.querySelector(".message").textContent = progressText(job.progress);
      row.querySelector(".time").textContent = [`${job.progress.percent} %`, eta(job)].filter(Boolean).join(" · ");
    }
    return undefined;
  }

  drawRows(container) {
    render(container, html`<ul class="job-rows">${this.running.map((job) => html`<li data-row tabindex="0" data-id="${job.job_id}">
      <span class="badge">${job.job_type}</span> <a href="#/job/${job.job_id}">${jobName(job)}</a> <span class="message muted"></span>${progressBar(job)}
      <span class="time"></span> <button type="button" class="secondary" data-key="c" data-cancel="${job.job_id}" aria-label="${t("action.cancel")}: ${jobName(job)}">✕</button></li>`)}</ul>`);
    for (const button of container.querySelectorAll("[data-cancel]")) {
      button.addEventListener("click", () => runAction(button, async () => {
        await post(`/api/jobs/${button.dataset.cancel}/cancel`);
        notify(t("toast.cancel"));
      }));
    }
  }

  finishedList() {
    if (!this.finished.length) return html`<p class="empty">${t("overview.none_finished")}</p>`;
    return html`<ul class="job-rows finished">${this.finished.map((job) => html`<li data-row tabindex="0" data-id="${job.job_id}">${stateBadge(job.status)} <span class="badge">${job.job_type}</span>
      <a href="#/job/${job.job_id}">${jobName(job)}</a> <span class="message muted">${job.error?.message ?? ""}</span> <span class="time">${ago(job.completed_at)}</span></li>`)}</ul>`;
  }
}

function throughputCharts({ series }, minutes) {
  const label = timeLabel(minutes);
  const types = [...new Set(series.flatMap((point) => Object.keys(point.types)))];
  const codes = [...new Set(series.flatMap((point) => Object.keys(point.failures)))];
  const completed = topSeries(series, label, types, (point, type) => point.types[type]?.completed ?? 0, "type");
  const failed = topSeries(series, label, codes, (point, code) => point.failures[code] ?? 0, "code");
  return html`<section class="charts" aria-label="${t("overview.throughput")}">
    ${barChart({ title: t("chart.completed"), value: number(sum(series, (point) => point.completed)), ...completed })}
    ${waitChart(series, label, completed.top)}
    ${barChart({ title: t("chart.failed"), value: number(sum(series, (point) => point.failed)), ...failed })}
    <p class="range"><label for="range">${t("overview.range")}</label> <select id="range">${RANGES.map((range) => html`<option value="${range}" ${flag("selected", range === minutes)}>${t(`range.${range}`)}</option>`)}</select></p></section>`;
}

const sum = (series, read) => series.reduce((total, point) => total + read(point), 0);

/** Formats the time of a point, with the weekday if the range is longer than a day. */
function timeLabel(minutes) {
  const time = { hour: "2-digit", minute: "2-digit" };
  const format = new Intl.DateTimeFormat(language(), minutes > DAY ? { weekday: "short", ...time } : time);
  return (point) => format.format(new Date(point.from));
}

/** Chart data for the names with the largest totals; all others are summed up as one more series. */
function topSeries(series, label, names, read, colors) {
  const total = (name) => sum(series, (point) => read(point, name));
  const top = [...names].sort((a, b) => total(b) - total(a)).slice(0, MAX_SERIES).sort();
  const others = names.filter((name) => !top.includes(name));
  const points = series.map((point) => ({
    label: label(point),
    values: [...top.map((name) => read(point, name)), ...(others.length ? [others.reduce((subtotal, name) => subtotal + read(point, name), 0)] : [])],
  }));
  const labels = [...top, ...(others.length ? [t("chart.other")] : [])];
  return { points, names: labels, classes: labels.map((_, i) => (i < top.length ? `${colors}-${i}` : "series-other")), top };
}

function waitChart(series, label, types) {
  const values = (point) => [point.wait_p95_s, ...types.map((type) => point.types[type]?.wait_p95_s ?? null)];
  const points = series.map((point) => ({ label: label(point), values: values(point) }));
  const maxOf = (k) => points.reduce((max, point) => Math.max(max, point.values[k] ?? -1), -1);
  const maxima = [0, ...types.map((_, i) => i + 1)].map(maxOf);
  return lineChart({
    title: t("chart.wait"),
    value: maxima[0] < 0 ? "–" : `≈ ${duration(maxima[0])}`,
    points,
    names: [t("chart.all"), ...types],
    classes: ["type-all", ...types.map((_, i) => `type-${i}`)],
    format: (seconds) => (seconds < 0 ? "–" : duration(seconds)),
    totals: maxima[0] < 0 ? null : maxima,
  });
}
