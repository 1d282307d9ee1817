// How the service is: its workers, its disk, what it can do.

import { get } from "./api.js";
import { beat, storage } from "./crew.js";
import { ago, clock, duration, number } from "./format.js";
import { html, render } from "./html.js";
import { complain } from "./notices.js";
import { drawEngines, drawSettings } from "./settings.js";
import { t } from "./words.js";

const REFRESH = 5000;

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
    render(root.querySelector("#changing"), html`${about(system)}${workers(system.workers)}<h2>${t("overview.storage")}</h2>${storage(system)}`);
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

function workers(list) {
  return html`<h2>${t("system.workers")}</h2>${list.length ? html`<table class="list"><thead><tr><th scope="col">${t("col.worker")}</th><th scope="col">${t("system.seen")}</th>
    <th scope="col" class="num">${t("system.slots")}</th><th scope="col">${t("system.takes")}</th><th scope="col">${t("system.version")}</th></tr></thead><tbody>${list.map((one) => html`<tr>
    <td><code>${one.worker_id}</code> <span class="faint">${one.host}</span></td><td><span class="beat ${beat(one)}" aria-hidden="true">♥</span> ${ago(one.seen_at)}${one.draining ? html` <span class="tag">${t("system.draining")}</span>` : ""}</td>
    <td class="num">${number(one.slots)}</td><td>${one.job_types.length ? one.job_types.join(", ") : t("system.all")}</td><td>${one.version}</td></tr>`)}</tbody></table>`
    : html`<p class="card failure">${t("overview.no_workers")}</p>`}`;
}

function kinds(types) {
  return html`<h2>${t("system.types")}</h2><table class="list"><thead><tr><th scope="col">${t("col.type")}</th><th scope="col">${t("system.timeout")}</th><th scope="col" class="num">${t("system.attempts")}</th>
    <td></td></tr></thead><tbody>${types.map((one) => html`<tr><td><code>${one.job_type}</code></td><td>${one.limits.timeout_s ? duration(one.limits.timeout_s) : "–"}</td>
    <td class="num">${one.limits.max_attempts ?? "–"}</td><td><a href="#/new?type=${one.job_type}">${t("menu.new")}</a></td></tr>`)}</tbody></table>`;
}
