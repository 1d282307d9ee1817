// How the service is: its workers, its disk, what it can do.

import { get } from "./api.js";
import { ago, clock, duration, number, size } from "./format.js";
import { html, render } from "./html.js";
import { complain } from "./notices.js";
import { drawEngines, drawSettings } from "./settings.js";
import { t } from "./words.js";

const REFRESH = 5000;
const STALE = 10;
const NEARLY_FULL = 0.9;

export async function show(root, { left, shown }) {
  const { job_types: types } = await get("/api/job-types", { signal: left });
  render(root, html`<h1>${t("menu.system")}</h1><div id="changing"></div><div id="engines"></div>${kinds(types)}<div id="configured"></div>
    <p><a href="/api/doc">${t("shell.api")}</a></p>`);
  const seldom = new Map(); // drawn anew only when it changed: something in it may be open
  const drawOnce = (id, value, markup) => {
    const text = JSON.stringify(value);
    if (seldom.get(id) !== text) render(root.querySelector(`#${id}`), value && markup(value));
    seldom.set(id, text);
  };
  const draw = async () => {
    const system = await get("/api/system", { signal: left });
    render(root.querySelector("#changing"), html`${about(system)}${workers(system.workers)}${disk(system)}`);
    drawOnce("engines", system.engines, drawEngines);
    drawOnce("configured", system.settings, drawSettings);
  };
  await draw();
  shown();
  const timer = setInterval(() => draw().catch((error) => error.code !== "OFFLINE" && complain(error)), REFRESH);
  left.addEventListener("abort", () => clearInterval(timer));
}

function about({ version, uptime_s: uptime, store, webhook_lag_s: lag }) {
  return html`<section class="facts-row">
    <p class="fact"><strong>${version}</strong> <span>Secretary</span></p>
    <p class="fact"><strong>${clock(uptime)}</strong> <span>${t("system.uptime")}</span></p>
    <p class="fact"><strong>${store.kind}</strong> <span>${t("system.store")}</span></p>
    <p class="fact ${lag > 60 ? "bad" : ""}"><strong>${duration(lag)}</strong> <span>${t("system.lag")}</span></p></section>`;
}

/** Amber before it is red. */
function beat(worker) {
  const silent = (Date.now() - new Date(worker.seen_at)) / 1000;
  return worker.alive ? (silent > STALE ? "amber" : "good") : "red";
}

function workers(list) {
  return html`<h2>${t("system.workers")}</h2>${list.length ? html`<table class="list"><thead><tr><th scope="col">${t("col.worker")}</th><th scope="col">${t("system.seen")}</th>
    <th scope="col" class="num">${t("system.slots")}</th><th scope="col">${t("system.takes")}</th><th scope="col">${t("system.version")}</th></tr></thead><tbody>${list.map((one) => html`<tr>
    <td><code>${one.worker_id}</code> <span class="faint">${one.host}</span></td><td><span class="beat ${beat(one)}" aria-hidden="true">♥</span> ${ago(one.seen_at)}${one.draining ? html` <span class="tag">${t("system.draining")}</span>` : ""}</td>
    <td class="num">${number(one.slots)}</td><td>${one.job_types.length ? one.job_types.join(", ") : t("system.all")}</td><td>${one.version}</td></tr>`)}</tbody></table>`
    : html`<p class="card failure">${t("overview.no_workers")}</p>`}`;
}

function disk({ disk: { total_bytes: total, free_bytes: free }, cache }) {
  const used = total - free;
  const full = cache.max_bytes ? Math.min(1, cache.bytes / cache.max_bytes) : 0;
  return html`<h2>${t("system.disk")}</h2><p><meter min="0" max="1" low="0.75" high="${NEARLY_FULL}" optimum="0" value="${(used / total).toFixed(3)}" aria-label="${t("system.disk")}"></meter>
    ${t("system.free", { free: size(free), total: size(total) })}</p>
    <p><meter min="0" max="1" value="${full.toFixed(3)}" aria-label="${t("system.cache")}"></meter> ${t("system.cached", { size: size(cache.bytes), limit: size(cache.max_bytes) })}</p>`;
}

function kinds(types) {
  return html`<h2>${t("system.types")}</h2><table class="list"><thead><tr><th scope="col">${t("col.type")}</th><th scope="col">${t("system.timeout")}</th><th scope="col" class="num">${t("system.attempts")}</th>
    <td></td></tr></thead><tbody>${types.map((one) => html`<tr><td><code>${one.job_type}</code></td><td>${one.limits.timeout_s ? duration(one.limits.timeout_s) : "–"}</td>
    <td class="num">${one.limits.max_attempts ?? "–"}</td><td><a href="#/new?type=${one.job_type}">${t("menu.new")}</a></td></tr>`)}</tbody></table>`;
}
