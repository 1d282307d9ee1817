// What went wrong, in words; in which attempt; and what helps, with the button for it.

import { ago } from "./format.js";
import { html, safeLink } from "./html.js";
import { t } from "./words.js";

/** What to offer for each code, the best first; to run it again is always offered. */
const WAYS = {
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
/** Which field of the form helps. */
const FIELDS = {
  FILE_ENCRYPTED: "password", UNSUPPORTED_FILE: "extraction_method", FILE_TOO_LARGE: "page_end",
  PROCESSING_TIMEOUT: "page_end", OUT_OF_MEMORY: "page_end", WORKER_CRASHED: "page_end",
};

export const inWords = (code) => t(`code.${code}`, {}, code);
export const remedyFor = (code) => t(`remedy.${code}`, {}, t("remedy.other"));

export const detailsOf = ({ details }) =>
  details && Object.keys(details).length ? html`<details><summary>${t("job.details")}</summary><pre>${JSON.stringify(details, null, 2)}</pre></details>` : "";

/** The card above everything else of a job that failed, or that is about to be tried again. */
export function failureOf(job) {
  if (!job.error || job.status === "completed") return null;
  const { code, message } = job.error;
  const again = job.status === "pending";
  if (job.status === "cancelled") return html`<section class="card calm"><p>${message}</p><p class="remedy">${remedyFor(code)}</p><p class="actions">${way("restart", job, 0)}</p></section>`;
  return html`<section class="card failure" role="${again ? "status" : "alert"}">
    <h2>${inWords(code)} <span class="code">${code}</span></h2>
    <p>${message}</p>
    <p class="remedy"><strong>${t("job.remedy")}</strong> ${remedyFor(code)}</p>
    ${when(job, again)}
    ${detailsOf(job.error)}
    ${!again && html`<p class="actions">${ways(job).map((name, i) => way(name, job, i))}</p>`}
  </section>`;
}

function when(job, again) {
  const attempt = job.attempts.findLast((one) => one.error) ?? job.attempts.at(-1);
  if (!attempt) return "";
  const where = attempt.worker_id && html` ${t("job.on_worker")} <code>${attempt.worker_id}</code>`;
  const next = again && html` ${t("job.tries_again")}${job.run_at && html` ${ago(job.run_at)}`}`;
  return html`<p class="faint">${t("job.in_attempt", { n: attempt.attempt })}${where}${attempt.ended_at && html`, ${ago(attempt.ended_at)}`}.${next}</p>`;
}

function ways(job) {
  const wanted = [...(WAYS[job.error.code] ?? ["restart", "change"]), "restart"];
  return [...new Set(wanted)].filter((name) => name !== "source" || sourceOf(job));
}

const sourceOf = (job) => safeLink(job.parameters.url ?? job.parameters.file_source?.value ?? "");

function way(name, job, i) {
  const look = i ? "button quiet" : "button";
  if (name === "restart") return html`<button type="button" class="${i ? "quiet" : ""}" data-fix="restart">${t("do.restart")}</button> `;
  if (name === "source") return html`<a class="${look}" href="${sourceOf(job)}" rel="noreferrer noopener" target="_blank">${t("do.source")}</a> `;
  const field = FIELDS[job.error.code];
  const address = {
    change: `#/job/${job.job_id}?tab=parameters&change=${field ?? ""}`,
    new: `#/new?type=${encodeURIComponent(job.job_type)}`,
    system: "#/system",
    logs: `#/job/${job.job_id}?tab=logs`,
  }[name];
  return html`<a class="${look}" href="${address}">${t(`do.${name}`)}</a> `;
}
