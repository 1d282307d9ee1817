// Name, state and progress of a job, as every list and page shows them.

import { clock } from "./format.js";
import { html } from "./html.js";
import { t } from "./i18n.js";

const ICONS = { pending: "○", processing: "◐", completed: "●", failed: "✕", cancelled: "⊘", paused: "‖" };

/** The job status that a stream event reports. */
export function statusOf({ phase, error }) {
  if (phase === "error") return error?.code === "CANCELLED" ? "cancelled" : "failed";
  return phase === "running" ? "processing" : phase;
}

/** The progress of a job after a stream event. */
export const progressAfter = (job, { message, data }) => ({ ...job.progress, message, percent: data?.progress ?? job.progress.percent });

export const isFinished = (status) => ["completed", "failed", "cancelled"].includes(status);

export function stateBadge(status) {
  return html`<span class="state ${`is-${status}`}"><span aria-hidden="true">${ICONS[status] ?? "○"}</span> ${t(`state.${status}`)}</span>`;
}

/** The display name: the given name, else the file name, else the beginning of the text. */
export function jobName(job) {
  const parameters = job.parameters ?? {};
  const source = parameters.file_source ?? {};
  const path = source.name ?? parameters.filename ?? parameters.session ?? parameters.file_path ?? parameters.url ?? source.value;
  const name = job.job_name ?? (path && fileName(String(path)));
  return name || (parameters.text ? `${String(parameters.text).slice(0, 60)}…` : `${job.job_type} …${job.job_id.slice(-8)}`);
}

function fileName(path) {
  const name = path.replace(/[?#].*$/, "").replace(/\/+$/, "").split("/").pop();
  return name || path;
}

/** Seconds the job has been running, or ran; null if it has not started. */
export function runTime(job) {
  if (!job.processing_started_at) return null;
  const end = job.completed_at ? new Date(job.completed_at) : Date.now();
  return Math.max(0, (end - new Date(job.processing_started_at)) / 1000);
}

/** The estimated time left at the speed so far; empty if there is too little to go by. */
export function eta(job) {
  const percent = job.progress?.percent ?? 0;
  const elapsed = runTime(job);
  if (job.status !== "processing" || percent < 5 || elapsed === null || elapsed < 2) return "";
  return t("job.eta", { time: clock((elapsed * (100 - percent)) / percent) });
}

/** The label of a step such as `processing_pages:3/20` or `video/transcribing:3/20`. */
export function stepLabel(progress) {
  const [path, count] = String(progress?.step ?? "").split(":");
  const [name, part] = path.split("/").reverse();
  const step = t(`step.${name}`, {}, name.replaceAll("_", " "));
  const label = part ? `${t(`part.${part}`, {}, part)}: ${step}` : step;
  const position = count && /^(transcribing|decoding|looking_for_slides)$/.test(name)
    ? count.split("/").map((n) => clock(Number(n))).join(" / ")
    : count?.replace("/", " / ");
  return position ? `${label} ${position}` : label;
}

/** The progress message; if it only repeats the step's name, the step's label. */
export function progressText(progress) {
  const message = progress?.message ?? "";
  return /^[a-z_]+(:[\d/]+)?$/.test(message) ? stepLabel({ step: message }) : message || stepLabel(progress);
}

export function progressBar(job) {
  const percent = job.progress?.percent ?? 0;
  return html`<progress max="100" value="${percent}" aria-label="${t("job.progress")}">${percent} %</progress>`;
}

/** The progress column of a list: a bar while the job runs, the error if it failed. */
export function progressCell(job) {
  if (job.status === "processing") {
    return html`${progressBar(job)} <span class="muted">${job.progress.percent} % · ${progressText(job.progress)} ${eta(job)}</span>`;
  }
  if (job.status === "failed") return html`<span class="code">${job.error?.code}</span> <span class="muted">${job.error?.message}</span>`;
  if (job.status === "pending" && job.error) return html`<span class="muted">${t("job.retrying", { code: job.error.code })}</span>`;
  return "";
}
