// How times, sizes, states and names are written.

import { html } from "./html.js";
import { language, t } from "./words.js";

const SIGNS = { pending: "○", processing: "◐", completed: "●", failed: "✕", cancelled: "⊘", paused: "‖" };
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export const number = (value) => new Intl.NumberFormat(language()).format(value);

export function state(name) {
  return html`<span class="state ${`is-${name}`}"><span aria-hidden="true">${SIGNS[name] ?? "○"}</span> ${t(`state.${name}`)}</span>`;
}

/** 0:38, 12:05, 1:02:05. */
export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export function duration(seconds) {
  if (seconds < 1) return `${number(Math.round(seconds * 1000))} ms`;
  return seconds < 60 ? `${number(Math.round(seconds * 10) / 10)} s` : clock(seconds);
}

export function size(bytes) {
  const step = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  const value = bytes / 1024 ** step;
  return `${number(value < 10 && step ? Math.round(value * 10) / 10 : Math.round(value))} ${["B", "kB", "MB", "GB", "TB"][step]}`;
}

export function exact(iso) {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(iso));
}

function relative(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? UNITS.at(-1);
  const amount = unit === "second" && Math.abs(seconds) < 5 ? 0 : Math.trunc(seconds / length);
  return new Intl.RelativeTimeFormat(language(), { numeric: "auto", style: "short" }).format(amount, unit);
}

export const ago = (iso) =>
  iso ? html`<time datetime="${iso}" title="${exact(iso)}" data-ago>${relative(iso)}</time>` : "–";

/** Relative times go on; called every few seconds. */
export function tick() {
  for (const node of document.querySelectorAll("time[data-ago]")) {
    const text = relative(node.dateTime);
    if (node.textContent !== text) node.textContent = text;
  }
}

export function took(job) {
  if (!job.processing_started_at) return null;
  const end = job.completed_at ? new Date(job.completed_at) : Date.now();
  return Math.max(0, (end - new Date(job.processing_started_at)) / 1000);
}

/** Seconds that are left if it goes on like this; null when nobody can tell. */
function remaining(job) {
  const percent = job.progress?.percent ?? 0;
  const elapsed = took(job);
  if (job.status !== "processing" || percent < 5 || elapsed === null || elapsed < 2) return null;
  return (elapsed * (100 - percent)) / percent;
}

export const eta = (job) => {
  const left = remaining(job);
  return left === null ? "" : t("job.eta", { time: clock(left) });
};

/** What people call a job. */
export function nameOf(job) {
  const given = job.parameters ?? {};
  const source = given.file_source ?? {};
  const path = source.name ?? given.filename ?? given.session ?? given.file_path ?? given.url ?? source.value;
  const told = job.job_name ?? (path && fileName(String(path)));
  return told || (given.text ? `${String(given.text).slice(0, 60)}…` : `${job.job_type} …${job.job_id.slice(-8)}`);
}

function fileName(path) {
  const short = path.replace(/[?#].*$/, "").replace(/\/+$/, "").split("/").pop();
  return short || path;
}

/** A step like `processing_pages:3/20` or `video/transcribing:3/20`, in words. */
export function step(progress) {
  const [path, count] = String(progress?.step ?? "").split(":");
  const [name, part] = path.split("/").reverse();
  const words = t(`step.${name}`, {}, name.replaceAll("_", " "));
  const known = part ? `${t(`part.${part}`, {}, part)}: ${words}` : words;
  const of = count && /^(transcribing|decoding|looking_for_slides)$/.test(name)
    ? count.split("/").map((n) => clock(Number(n))).join(" / ")
    : count?.replace("/", " / ");
  return of ? `${known} ${of}` : known;
}

/** What a job says of itself; where that is only the name of its step, in words. */
export function saying(progress) {
  const message = progress?.message ?? "";
  return /^[a-z_]+(:[\d/]+)?$/.test(message) ? step({ step: message }) : message || step(progress);
}

export function bar(job) {
  const percent = job.progress?.percent ?? 0;
  return html`<progress max="100" value="${percent}" aria-label="${t("job.progress")}">${percent} %</progress>`;
}
