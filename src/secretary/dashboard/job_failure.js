// The failure card: what went wrong, in which attempt, how to fix it, with a button for each way.

import { ago } from "./format.js";
import { html, safeLink } from "./html.js";
import { t } from "./i18n.js";

/** The actions offered for each error code, the most promising first. Re-running is always offered. */
const REMEDIES = {
  VALIDATION_ERROR: ["change"],
  UNKNOWN_JOB_TYPE: ["system"],
  DOWNLOAD_FAILED: ["restart", "source", "change"],
  UNSUPPORTED_FILE: ["change", "new"],
  FILE_ENCRYPTED: ["change"],
  FILE_CORRUPT: ["new"],
  FILE_TOO_LARGE: ["change"],
  PROCESSING_TIMEOUT: ["change"],
  ENGINE_UNAVAILABLE: ["system", "restart", "change"],
  UPSTREAM_FAILED: ["restart", "system"],
  WORKER_CRASHED: ["restart", "change"],
  OUT_OF_MEMORY: ["change"],
  CANCELLED: ["restart"],
  INTERNAL_ERROR: ["restart", "logs"],
};
/** The parameter to change for each error code. */
const FIELDS = {
  FILE_ENCRYPTED: "password", UNSUPPORTED_FILE: "extraction_method", FILE_TOO_LARGE: "page_end",
  PROCESSING_TIMEOUT: "page_end", OUT_OF_MEMORY: "page_end", WORKER_CRASHED: "page_end",
};

export const codeLabel = (code) => t(`code.${code}`, {}, code);
const remedyText = (code) => t(`remedy.${code}`, {}, t("remedy.other"));

export const errorDetails = ({ details }) =>
  details && Object.keys(details).length ? html`<details><summary>${t("job.details")}</summary><pre>${JSON.stringify(details, null, 2)}</pre></details>` : "";

/** The card for a job that failed, was cancelled, or is waiting for a retry; null for all others. */
export function failureCard(job) {
  if (!job.error || job.status === "completed") return null;
  const { code, message } = job.error;
  const willRetry = job.status === "pending";
  if (job.status === "cancelled") return html`<section class="card info"><p>${message}</p><p class="remedy">${remedyText(code)}</p><p class="actions">${actionButton("restart", job, true)}</p></section>`;
  return html`<section class="card failure" role="${willRetry ? "status" : "alert"}">
    <h2>${codeLabel(code)} <span class="code">${code}</span></h2>
    <p>${message}</p>
    <p class="remedy"><strong>${t("job.remedy")}</strong> ${remedyText(code)}</p>
    ${attemptLine(job, willRetry)}
    ${errorDetails(job.error)}
    ${!willRetry && html`<p class="actions">${actionsFor(job).map((name, i) => actionButton(name, job, i === 0))}</p>`}
  </section>`;
}

function attemptLine(job, willRetry) {
  const attempt = job.attempts.findLast((candidate) => candidate.error) ?? job.attempts.at(-1);
  if (!attempt) return "";
  const worker = attempt.worker_id && html` ${t("job.on_worker")} <code>${attempt.worker_id}</code>`;
  const retry = willRetry && html` · ${t("job.retries")}${job.run_at && html` ${ago(job.run_at)}`}`;
  return html`<p class="muted">${t("job.attempt", { n: attempt.attempt })}${worker}${attempt.ended_at && html` · ${ago(attempt.ended_at)}`}${retry}</p>`;
}

function actionsFor(job) {
  const names = [...(REMEDIES[job.error.code] ?? ["restart", "change"]), "restart"];
  return [...new Set(names)].filter((name) => name !== "source" || sourceUrl(job));
}

const sourceUrl = (job) => safeLink(job.parameters.url ?? job.parameters.file_source?.value ?? "");

function actionButton(name, job, isPrimary) {
  const style = isPrimary ? "button" : "button secondary";
  if (name === "restart") return html`<button type="button" class="${isPrimary ? "" : "secondary"}" data-action="restart">${t("action.restart")}</button> `;
  if (name === "source") return html`<a class="${style}" href="${sourceUrl(job)}" rel="noreferrer noopener" target="_blank">${t("action.source")}</a> `;
  const hash = {
    change: `#/job/${job.job_id}?tab=parameters&change=${FIELDS[job.error.code] ?? ""}`,
    new: `#/new?type=${encodeURIComponent(job.job_type)}`,
    system: "#/system",
    logs: `#/job/${job.job_id}?tab=logs`,
  }[name];
  return html`<a class="${style}" href="${hash}">${t(`action.${name}`)}</a> `;
}
