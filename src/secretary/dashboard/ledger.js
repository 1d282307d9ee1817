// What is on record about a job: its attempts, what its webhook was told, what it used.

import { ago, duration, exact, number, size, took } from "./format.js";
import { detailsOf, inWords } from "./failure.js";
import { html } from "./html.js";
import { t } from "./words.js";

const between = (from, to) => Math.max(0, (new Date(to) - new Date(from)) / 1000);

export function attempts(job) {
  if (!job.attempts.length) return html`<p class="empty">${t("attempts.none")}</p>`;
  return html`<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("col.started")}</th><th scope="col">${t("col.took")}</th>
    <th scope="col">${t("col.worker")}</th><th scope="col">${t("col.outcome")}</th></tr></thead><tbody>${job.attempts.map((one) => html`<tr>
    <td data-label="#">${one.attempt}</td><td data-label="${t("col.started")}">${ago(one.started_at)}</td>
    <td data-label="${t("col.took")}">${one.ended_at ? duration(between(one.started_at, one.ended_at)) : t("attempts.running")}</td>
    <td data-label="${t("col.worker")}"><code>${one.worker_id ?? "–"}</code></td><td data-label="${t("col.outcome")}">${outcome(one)}</td></tr>`)}</tbody></table>`;
}

function outcome({ error, ended_at: ended }) {
  if (!error) return ended ? html`<span class="state is-completed"><span aria-hidden="true">✓</span> ${t("attempts.well")}</span>` : "";
  return html`<strong>${inWords(error.code)}</strong> <span class="code">${error.code}</span><br>${error.message}
    ${detailsOf(error)}`;
}

export function deliveries(job) {
  const where = job.webhook && html`<p>${t("delivery.to")} <code>${job.webhook.url}</code></p>`;
  if (!job.deliveries.length) return html`${where}<p class="empty">${t("delivery.none")}</p>`;
  return html`${where}<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("delivery.event")}</th><th scope="col">${t("col.state")}</th>
    <th scope="col">${t("delivery.tries")}</th><td></td></tr></thead><tbody>${job.deliveries.map((one) => html`<tr><td data-label="#">${one.n}</td><td data-label="${t("delivery.event")}">${one.event}</td>
      <td data-label="${t("col.state")}">${standing(one)}</td><td data-label="${t("delivery.tries")}">${tries(one)}</td>
      <td>${one.event !== "progress" && html`<button type="button" class="quiet" data-replay="${one.n}">${t("delivery.replay")}</button>`}</td></tr>`)}</tbody></table>`;
}

function standing(one) {
  if (one.delivered_at) return html`<span class="state is-completed"><span aria-hidden="true">●</span> ${t("delivery.done")}</span> ${ago(one.delivered_at)}`;
  if (one.gave_up) return html`<span class="state is-failed"><span aria-hidden="true">✕</span> ${t("delivery.gave_up")}</span>`;
  return one.next_try_at ? html`${t("delivery.next")} ${ago(one.next_try_at)}` : "–";
}

function tries(one) {
  const last = one.tries.at(-1);
  if (!last) return one.tried;
  const told = (it) => html`${it.status ?? it.error} · ${number(it.duration_ms)} ms`;
  if (one.tries.length === 1) return html`${one.tried} <span class="faint">${told(last)}</span>`;
  return html`<details><summary>${one.tried} · ${told(last)}</summary><ol class="tries">${one.tries.map((it) => html`<li>${exact(it.at)}: ${told(it)}</li>`)}</ol></details>`;
}

/** Whether something about the webhook is still to come. */
export const isTelling = (job) => job.deliveries.some((one) => !one.delivered_at && one.next_try_at);

export function resources(job) {
  const first = job.attempts[0]?.started_at ?? job.processing_started_at;
  const cached = job.results?.is_from_cache;
  const seconds = took(job);
  const rows = [
    [t("resource.waited"), first ? duration(between(job.created_at, first)) : null],
    [t("resource.ran"), seconds === null ? null : duration(seconds)],
    [t("resource.attempts"), job.attempts.length ? number(job.attempts.length) : null],
    [t("resource.cached"), cached === undefined ? null : t(cached ? "resource.yes" : "resource.no")],
    ...Object.entries(job.resources ?? {}).map(([name, amount]) => [t(`resource.${name}`, {}, name.replaceAll("_", " ")), told(name, amount)]),
  ];
  return html`<table class="pairs"><tbody>${rows.filter(([, one]) => one !== null).map(([name, one]) => html`<tr><th scope="row">${name}</th><td>${one}</td></tr>`)}</tbody></table>
    ${questions(job.results?.llm_info?.requests ?? [])}`;
}

function told(name, amount) {
  if (/bytes/.test(name)) return size(amount);
  if (/seconds|_s$/.test(name)) return duration(amount);
  return /cost/.test(name) ? amount.toPrecision(3) : number(amount);
}

function questions(list) {
  if (!list.length) return "";
  return html`<h2>${t("resource.models", { n: list.length, count: number(list.length) })}</h2><div class="scroll" tabindex="0" role="region" aria-label="${t("resource.models", { n: 2, count: "" })}"><table class="list"><thead><tr>
    <th scope="col">${t("resource.model")}</th><th scope="col">${t("resource.purpose")}</th><th scope="col" class="num">${t("resource.llm_input_tokens")}</th><th scope="col" class="num">${t("resource.llm_output_tokens")}</th>
    <th scope="col" class="num">${t("col.took")}</th><th scope="col" class="num">${t("resource.llm_cost")}</th></tr></thead><tbody>${list.slice(0, 200).map((one) => html`<tr>
    <td><code>${one.model}</code></td><td>${one.purpose}</td><td class="num">${number(one.input_tokens ?? 0)}</td><td class="num">${number(one.output_tokens ?? 0)}</td>
    <td class="num">${duration((one.duration_ms ?? 0) / 1000)}</td><td class="num">${one.cost === undefined ? "–" : one.cost.toPrecision(3)}</td></tr>`)}</tbody></table></div>`;
}
