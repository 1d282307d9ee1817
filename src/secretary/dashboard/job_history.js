// The tables on record about a job: attempts, webhook deliveries and resource usage.

import { ago, dateTime, duration, number, secondsBetween, size } from "./format.js";
import { html } from "./html.js";
import { t } from "./i18n.js";
import { codeLabel, errorDetails } from "./job_failure.js";
import { runTime } from "./job_status.js";

const MAX_LLM_REQUESTS = 200;

export function attemptsTable(job) {
  if (!job.attempts.length) return html`<p class="empty">${t("attempts.none")}</p>`;
  return html`<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("col.started")}</th><th scope="col">${t("col.duration")}</th>
    <th scope="col">${t("col.worker")}</th><th scope="col">${t("col.outcome")}</th></tr></thead><tbody>${job.attempts.map((attempt) => html`<tr>
    <td data-label="#">${attempt.attempt}</td><td data-label="${t("col.started")}">${ago(attempt.started_at)}</td>
    <td data-label="${t("col.duration")}">${attempt.ended_at ? duration(secondsBetween(attempt.started_at, attempt.ended_at)) : t("attempts.running")}</td>
    <td data-label="${t("col.worker")}"><code>${attempt.worker_id ?? "–"}</code></td><td data-label="${t("col.outcome")}">${outcome(attempt)}</td></tr>`)}</tbody></table>`;
}

function outcome({ error, ended_at: endedAt }) {
  if (!error) return endedAt ? html`<span class="state is-completed"><span aria-hidden="true">✓</span> ${t("attempts.succeeded")}</span>` : "";
  return html`<strong>${codeLabel(error.code)}</strong> <span class="code">${error.code}</span><br>${error.message}
    ${errorDetails(error)}`;
}

export function deliveriesTable(job) {
  const endpoint = job.webhook && html`<p>${t("delivery.endpoint")} <code>${job.webhook.url}</code></p>`;
  if (!job.deliveries.length) return html`${endpoint}<p class="empty">${t("delivery.none")}</p>`;
  return html`${endpoint}<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("delivery.event")}</th><th scope="col">${t("col.state")}</th>
    <th scope="col">${t("delivery.attempts")}</th><td></td></tr></thead><tbody>${job.deliveries.map((delivery) => html`<tr><td data-label="#">${delivery.n}</td><td data-label="${t("delivery.event")}">${delivery.event}</td>
      <td data-label="${t("col.state")}">${deliveryStatus(delivery)}</td><td data-label="${t("delivery.attempts")}">${deliveryAttempts(delivery)}</td>
      <td>${delivery.event !== "progress" && html`<button type="button" class="secondary" data-resend="${delivery.n}">${t("delivery.resend")}</button>`}</td></tr>`)}</tbody></table>`;
}

function deliveryStatus(delivery) {
  if (delivery.delivered_at) return html`<span class="state is-completed"><span aria-hidden="true">●</span> ${t("delivery.delivered")}</span> ${ago(delivery.delivered_at)}`;
  if (delivery.gave_up) return html`<span class="state is-failed"><span aria-hidden="true">✕</span> ${t("delivery.failed")}</span>`;
  return delivery.next_try_at ? html`${t("delivery.next")} ${ago(delivery.next_try_at)}` : "–";
}

function deliveryAttempts({ tried: count, tries: attempts }) {
  const last = attempts.at(-1);
  if (!last) return count;
  const response = (attempt) => html`${attempt.status ?? attempt.error} · ${number(attempt.duration_ms)} ms`;
  if (attempts.length === 1) return html`${count} <span class="muted">${response(last)}</span>`;
  return html`<details><summary>${count} · ${response(last)}</summary><ol class="delivery-attempts">${attempts.map((attempt) => html`<li>${dateTime(attempt.at)}: ${response(attempt)}</li>`)}</ol></details>`;
}

export const hasPendingDelivery = (job) => job.deliveries.some((delivery) => !delivery.delivered_at && delivery.next_try_at);

export function resourcesTable(job) {
  const startedAt = job.attempts[0]?.started_at ?? job.processing_started_at;
  const cached = job.results?.is_from_cache;
  const seconds = runTime(job);
  const rows = [
    [t("resource.wait_time"), startedAt ? duration(secondsBetween(job.created_at, startedAt)) : null],
    [t("resource.run_time"), seconds === null ? null : duration(seconds)],
    [t("resource.attempts"), job.attempts.length ? number(job.attempts.length) : null],
    [t("resource.cached"), cached === undefined ? null : t(cached ? "resource.yes" : "resource.no")],
    [t("resource.stored_bytes"), job.stored_bytes ? size(job.stored_bytes) : null],
    [t("resource.expires_at"), job.expires_at ? dateTime(job.expires_at) : null],
    ...Object.entries(job.resources ?? {}).map(([name, amount]) => [t(`resource.${name}`, {}, name.replaceAll("_", " ")), formatAmount(name, amount)]),
  ];
  return html`<table class="pairs"><tbody>${rows.filter(([, value]) => value !== null).map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>
    ${llmRequests(job.results?.llm_info?.requests ?? [])}`;
}

function formatAmount(name, amount) {
  if (/bytes/.test(name)) return size(amount);
  if (/seconds|_s$/.test(name)) return duration(amount);
  return /cost/.test(name) ? amount.toPrecision(3) : number(amount);
}

function llmRequests(requests) {
  if (!requests.length) return "";
  return html`<h2>${t("resource.models", { n: requests.length, count: number(requests.length) })}</h2><div class="scroll" tabindex="0" role="region" aria-label="${t("resource.llm_requests")}"><table class="list"><thead><tr>
    <th scope="col">${t("resource.model")}</th><th scope="col">${t("resource.purpose")}</th><th scope="col" class="num">${t("resource.llm_input_tokens")}</th><th scope="col" class="num">${t("resource.llm_output_tokens")}</th>
    <th scope="col" class="num">${t("col.duration")}</th><th scope="col" class="num">${t("resource.llm_cost")}</th></tr></thead><tbody>${requests.slice(0, MAX_LLM_REQUESTS).map((request) => html`<tr>
    <td><code>${request.model}</code></td><td>${request.purpose}</td><td class="num">${number(request.input_tokens ?? 0)}</td><td class="num">${number(request.output_tokens ?? 0)}</td>
    <td class="num">${duration((request.duration_ms ?? 0) / 1000)}</td><td class="num">${request.cost === undefined ? "–" : request.cost.toPrecision(3)}</td></tr>`)}</tbody></table></div>`;
}
