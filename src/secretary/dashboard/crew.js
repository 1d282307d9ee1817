// The workers with their heartbeat and slots, and the room that is left on disk and in the cache.

import { ago, number, size } from "./format.js";
import { html } from "./html.js";
import { t } from "./words.js";

const STALE = 10;
const NEARLY_FULL = 0.9;

/** Amber before it is red. */
export function beat(worker) {
  const silent = (Date.now() - new Date(worker.seen_at)) / 1000;
  return worker.alive ? (silent > STALE ? "amber" : "good") : "red";
}

export function crew(workers) {
  if (!workers.length) return html`<p class="empty">–</p>`;
  return html`<ul class="crew">${workers.map((one) => html`<li>
    <span class="beat ${beat(one)}" aria-hidden="true">♥</span><span class="unseen">${t(`beat.${beat(one)}`)}</span>
    <span class="who"><strong>${one.host}</strong> <code class="faint">${one.worker_id}</code>${one.draining ? html` <span class="tag">${t("system.draining")}</span>` : ""}</span>
    <span class="slots">${slots(one)}</span> <span class="faint"><span class="unseen">${t("system.seen")}</span> ${ago(one.seen_at)}</span></li>`)}</ul>`;
}

function slots({ busy, slots }) {
  const label = t("overview.busy", { busy: number(busy), slots: number(slots) });
  return html`<meter min="0" max="${Math.max(slots, 1)}" value="${Math.min(busy, slots)}" aria-label="${label}"></meter> <span>${label}</span>`;
}

function room(title, used, total, said) {
  const part = total ? used / total : 0;
  return html`<p><strong>${title}</strong><meter min="0" max="1" low="0.75" high="${NEARLY_FULL}" optimum="0" value="${part.toFixed(3)}" aria-label="${title}"></meter>
    <span class="faint">${said}</span></p>`;
}

export function storage({ disk, cache }) {
  return html`<div class="card storage">${room(t("system.disk"), disk.total_bytes - disk.free_bytes, disk.total_bytes, t("system.free", { free: size(disk.free_bytes), total: size(disk.total_bytes) }))}
    ${room(t("overview.cache"), cache.bytes, cache.max_bytes, t("overview.cache_used", { used: size(cache.bytes), total: cache.max_bytes ? size(cache.max_bytes) : "∞" }))}</div>`;
}
