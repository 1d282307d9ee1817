// The system view: workers, storage, engines, job types and settings.

import { get } from "./api.js";
import { ago, clock, dateTime, duration, isObject, number, size } from "./format.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";
import { notifyError } from "./notifications.js";

const REFRESH_INTERVAL = 5000;
const HEARTBEAT_LATE_SECONDS = 10;
const NEARLY_FULL = 0.9;
const MAX_WEBHOOK_LAG_SECONDS = 60;
const VERDICT_ICONS = { ok: "●", info: "○", warning: "▲", problem: "✕" };

export async function show(root, { signal, onReady }) {
  const { job_types: jobTypes } = await get("/api/job-types", { signal });
  render(root, html`<h1>${t("menu.system")}</h1><div id="live-status"></div><div id="engines"></div>${jobTypeTable(jobTypes)}<div id="settings"></div>
    <p><a href="/api/doc">${t("shell.api")}</a></p>`);
  const drawn = new Map();
  // Redraws a section only if it changed: the user may have opened something in it.
  const drawIfChanged = (id, value, draw) => {
    const json = JSON.stringify(value);
    if (drawn.get(id) !== json) render(root.querySelector(`#${id}`), value && draw(value));
    drawn.set(id, json);
  };
  const refresh = async () => {
    const system = await get("/api/system", { signal });
    render(root.querySelector("#live-status"), html`${stats(system)}${workerTable(system.workers)}<h2>${t("overview.storage")}</h2>${storageUsage(system)}`);
    drawIfChanged("engines", system.engines, engineTable);
    drawIfChanged("settings", system.settings, settingsGroups);
  };
  await refresh();
  onReady();
  const timer = setInterval(() => refresh().catch((error) => error.code !== "OFFLINE" && notifyError(error)), REFRESH_INTERVAL);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** The workers of the overview, with the share of their slots in use. */
export function workerList(workers) {
  if (!workers.length) return html`<p class="empty">–</p>`;
  return html`<ul class="workers">${workers.map((worker) => html`<li>
    <span class="heartbeat ${heartbeat(worker)}" aria-hidden="true">♥</span><span class="visually-hidden">${t(`heartbeat.${heartbeat(worker)}`)}</span>
    <span class="host"><strong>${worker.host}</strong> <code class="muted">${worker.worker_id}</code>${worker.draining ? html` <span class="tag">${t("system.draining")}</span>` : ""}</span>
    <span class="slots">${slotMeter(worker)}</span> <span class="muted"><span class="visually-hidden">${t("system.last_heartbeat")}</span> ${ago(worker.seen_at)}</span></li>`)}</ul>`;
}

/** A heartbeat is late for a while before the worker counts as lost. */
function heartbeat(worker) {
  const age = (Date.now() - new Date(worker.seen_at)) / 1000;
  return worker.alive ? (age > HEARTBEAT_LATE_SECONDS ? "late" : "ok") : "lost";
}

function slotMeter({ busy, slots, io_busy: ioBusy, io_slots: ioSlots }) {
  const io = ioSlots ? html` <span class="muted">${t("overview.io_busy", { busy: number(ioBusy), slots: number(ioSlots) })}</span>` : "";
  const label = t("overview.busy", { busy: number(busy), slots: number(slots) });
  return html`<meter min="0" max="${Math.max(slots, 1)}" value="${Math.min(busy, slots)}" aria-label="${label}"></meter> <span>${label}</span>${io}`;
}

export function storageUsage({ disk, cache }) {
  return html`<div class="card storage">${usageMeter(t("system.disk"), disk.total_bytes - disk.free_bytes, disk.total_bytes, t("system.free", { free: size(disk.free_bytes), total: size(disk.total_bytes) }))}
    ${usageMeter(t("overview.cache"), cache.bytes, cache.max_bytes, t("overview.cache_used", { used: size(cache.bytes), total: cache.max_bytes ? size(cache.max_bytes) : "∞" }))}</div>`;
}

const QUOTA_UNITS = { jobs: number, pages: number, audio_minutes: number, stored_bytes: size };

/** What the user has used of each quota, or for operators what all users have used today. */
export function quotaUsage({ quota, usage }) {
  if (!quota) {
    const figures = ["users", "jobs", "pages", "audio_minutes"].map((unit) => html`<tr><th scope="row">${t(`quota.${unit}`)}</th><td class="num">${number(usage[unit])}</td></tr>`);
    return html`<div class="card"><table class="pairs"><tbody>${figures}</tbody></table></div>`;
  }
  return html`<div class="card storage">${Object.entries(QUOTA_UNITS).map(([unit, format]) => {
    const { used, limit } = quota[unit];
    return usageMeter(t(`quota.${unit}`), used, limit, limit === null ? format(used) : t("quota.used", { used: format(used), limit: format(limit) }));
  })}<p class="muted">${t("quota.resets", { time: dateTime(quota.resets_at) })}</p></div>`;
}

function usageMeter(title, used, total, text) {
  const share = total ? used / total : 0;
  return html`<p><strong>${title}</strong><meter min="0" max="1" low="0.75" high="${NEARLY_FULL}" optimum="0" value="${Math.min(share, 1).toFixed(3)}" aria-label="${title}"></meter>
    <span class="muted">${text}</span></p>`;
}

function stats({ version, uptime_s: uptime, store, webhook_lag_s: lag }) {
  return html`<section class="stats">
    <p class="stat"><strong>${version}</strong> <span>Secretary</span></p>
    <p class="stat"><strong>${clock(uptime)}</strong> <span>${t("system.uptime")}</span></p>
    <p class="stat"><strong>${store.kind}</strong> <span>${t("system.store")}</span></p>
    <p class="stat ${lag > MAX_WEBHOOK_LAG_SECONDS ? "alert" : ""}"><strong>${duration(lag)}</strong> <span>${t("system.lag")}</span></p></section>`;
}

function workerTable(workers) {
  return html`<h2>${t("system.workers")}</h2>${workers.length ? html`<table class="list"><thead><tr><th scope="col">${t("col.worker")}</th><th scope="col">${t("system.last_heartbeat")}</th>
    <th scope="col" class="num">${t("system.slots")}</th><th scope="col">${t("system.job_types")}</th><th scope="col">${t("system.version")}</th></tr></thead><tbody>${workers.map((worker) => html`<tr>
    <td><code>${worker.worker_id}</code> <span class="muted">${worker.host}</span></td><td><span class="heartbeat ${heartbeat(worker)}" aria-hidden="true">♥</span> ${ago(worker.seen_at)}${worker.draining ? html` <span class="tag">${t("system.draining")}</span>` : ""}</td>
    <td class="num">${number(worker.slots)}${worker.io_slots ? ` + ${number(worker.io_slots)} I/O` : ""}</td><td>${worker.job_types.length ? worker.job_types.join(", ") : t("system.all")}</td><td>${worker.version}</td></tr>`)}</tbody></table>`
    : html`<p class="card failure">${t("overview.no_workers")}</p>`}`;
}

function jobTypeTable(jobTypes) {
  return html`<h2>${t("system.job_types")}</h2><table class="list"><thead><tr><th scope="col">${t("col.type")}</th><th scope="col">${t("system.timeout")}</th><th scope="col" class="num">${t("system.attempts")}</th>
    <td></td></tr></thead><tbody>${jobTypes.map(({ job_type: type, limits }) => html`<tr><td><code>${type}</code></td><td>${limits.timeout_s ? duration(limits.timeout_s) : "–"}</td>
    <td class="num">${limits.max_attempts ?? "–"}</td><td><a href="#/new?type=${type}">${t("system.new_job")}</a></td></tr>`)}</tbody></table>`;
}

/** Engines and settings are only sent to operators. */
function engineTable(engines) {
  return html`<h2>${t("system.engines")}</h2><table class="list"><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("system.details")}</th></tr></thead>
    <tbody>${engines.map(({ verdict, subject, fact, remedy }) => html`<tr><td><span class="verdict ${`is-${verdict}`}"><span aria-hidden="true">${VERDICT_ICONS[verdict]}</span> ${t(`verdict.${verdict}`)}</span></td>
    <td class="cell-name">${t(`engine.${subject}`, {}, subject)}</td><td>${fact}${remedy && html`<br><span class="muted">${remedy}</span>`}</td></tr>`)}</tbody></table>`;
}

function settingsGroups(settings) {
  const groups = Object.entries(settings).map(([name, value]) => (isObject(value) ? [name, value] : [name, { [name]: value }]));
  return html`<h2>${t("system.settings")}</h2><p class="muted">${t("system.settings_hint")}</p><div class="groups">${groups.map(([name, group]) =>
    html`<details class="group"><summary><code>${name}</code></summary>${settingsTable(group)}</details>`)}</div>`;
}

function settingsTable(group) {
  return html`<table class="pairs"><tbody>${Object.entries(group).map(([name, value]) => html`<tr><th scope="row"><code>${name}</code></th><td>${settingValue(value)}</td></tr>`)}</tbody></table>`;
}

function settingValue(value) {
  if (value === null || value === "" || (Array.isArray(value) && !value.length) || (isObject(value) && !Object.keys(value).length)) return html`<span class="muted">–</span>`;
  if (Array.isArray(value)) return html`<code>${value.join(", ")}</code>`;
  return isObject(value) ? settingsTable(value) : html`<code>${String(value)}</code>`;
}
