// The list of batches: how far is each?

import { get, stream } from "./api.js";
import { hasEnded } from "./changes.js";
import { parts } from "./charts.js";
import { ago, number, state } from "./format.js";
import { flag, html, render } from "./html.js";
import { connection } from "./notices.js";
import { t } from "./words.js";

const PAGE = 50;
export const STATES = ["completed", "failed", "cancelled", "processing", "pending"];

export const stateOf = (batch) => (batch.isActive || hasEnded(batch.status) ? batch.status : "paused");

export function made(batch) {
  const counts = STATES.map((name) => batch[`${name}_jobs`]);
  const label = STATES.map((name, i) => `${t(`state.${name}`)} ${number(counts[i])}`).join(", ");
  return parts(counts, STATES.map((name) => `is-${name}`), label);
}

export const ended = (batch) => batch.completed_jobs + batch.failed_jobs + batch.cancelled_jobs;

export async function show(root, { query, left, shown }) {
  const asked = new URLSearchParams({ limit: PAGE, ...Object.fromEntries(query) });
  const { batches, next_cursor: next } = await get(`/api/batches?${asked}`, { signal: left });
  const archived = query.get("archived") === "true";
  const here = (more = {}) => `#/batches?${new URLSearchParams({ ...(archived && { archived: "true" }), ...more })}`.replace(/\?$/, "");
  render(root, html`<h1>${t("menu.batches")}</h1>
    <div class="tabs"><a href="#/batches" ${flag('aria-current="true"', !archived)}>${t("batches.current")}</a><a href="#/batches?archived=true" ${flag('aria-current="true"', archived)}>${t("batches.archived")}</a></div>
    ${batches.length ? table(batches) : html`<section class="empty"><p>${t(archived ? "batches.none_archived" : "batches.none")}</p>
    ${!archived && html`<p><a class="button" href="#/new">+ ${t("menu.new")}</a></p>`}</section>`}
    <nav class="pages" aria-label="${t("jobs.pages")}">${query.get("cursor") && html`<a class="button quiet" href="${here()}">${t("jobs.newest")}</a>`}
      ${next && html`<a class="button quiet" rel="next" href="${here({ cursor: next })}">${t("jobs.older")} →</a>`}</nav>`);
  shown();
  const off = stream("/api/events", ({ data }) => data.batch && change(root, data.data), connection(left));
  left.addEventListener("abort", off);
}

function cells(batch) {
  return html`<td class="cell-state">${state(stateOf(batch))}</td><td class="cell-name"><a href="#/batch/${batch.batch_id}">${batch.batch_name}</a></td>
    <td class="cell-progress">${made(batch)} <span class="faint">${t("batch.ended", { ended: number(ended(batch)), total: number(batch.total_jobs) })}${batch.failed_jobs ? ` · ${t("batch.failed", { n: number(batch.failed_jobs) })}` : ""}</span></td>
    <td>${ago(batch.created_at)}</td>`;
}

function table(batches) {
  return html`<table class="list"><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("col.progress")}</th>
    <th scope="col">${t("col.created")}</th></tr></thead><tbody>${batches.map((batch) => html`<tr data-row tabindex="0" data-id="${batch.batch_id}">${cells(batch)}</tr>`)}</tbody></table>`;
}

function change(root, batch) {
  const row = root.querySelector(`tr[data-id="${CSS.escape(batch.batch_id ?? "")}"]`);
  if (row && !row.contains(document.activeElement)) render(row, cells(batch));
}
