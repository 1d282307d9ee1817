// A running job: its progress with the steps it goes through, and its log.

import { clock, dateTime, number } from "./format.js";
import { flag, html, render } from "./html.js";
import { t } from "./i18n.js";
import { eta, progressBar, progressText, runTime, stepLabel } from "./job_status.js";
import { announce } from "./notifications.js";

const OPENING = ["initializing", "downloading_or_opening"];
const DOCUMENT = [...OPENING, "processing_pages", "postprocessing"];
/** The usual steps of each job type. Others are inserted when they begin. */
const STEPS = {
  pdf: DOCUMENT, office: DOCUMENT, imageocr: DOCUMENT,
  audio: [...OPENING, "decoding", "transcribing", "postprocessing"],
  video: [...OPENING, "decoding", "transcribing", "looking_for_slides", "postprocessing"],
  transformer: [...OPENING, "postprocessing"],
  imageanalyzer: [...OPENING, "analyzing", "postprocessing"],
  chat: ["initializing", "asking", "postprocessing"],
  embedding: ["initializing", "embedding", "postprocessing"],
  text2image: ["initializing", "generating", "postprocessing"],
  session: ["initializing", "reading_page", "slides", "video", "writing", "postprocessing"],
};
const STEP_ICONS = { done: "✓", current: "◐", upcoming: "○" };

export class JobProgress {
  constructor(container) {
    this.container = container;
    this.attempt = null;
  }

  draw(job) {
    const isPending = job.status === "pending";
    if (this.attempt !== job.attempt || !this.container.firstElementChild) this.startAttempt(job);
    const label = isPending ? (job.run_at ? t("job.scheduled", { time: dateTime(job.run_at) }) : t("job.waiting")) : stepLabel(job.progress);
    const message = isPending || isRedundant(job.progress, label) ? "" : progressText(job.progress);
    const seconds = runTime(job);
    const { percent } = job.progress;
    this.container.querySelector("progress").value = percent;
    const [strong, text, right] = this.container.querySelectorAll("p > *");
    strong.textContent = isPending ? t("state.pending") : `${percent} %`;
    text.textContent = [label, message].filter(Boolean).join(" · ");
    const remaining = isPending ? "" : this.remainingTime(job);
    right.textContent = isPending ? "" : [seconds === null ? "" : clock(seconds), remaining].filter(Boolean).join(" · ");
    right.title = remaining ? t("job.eta_hint") : "";
    if (!isPending) this.markStep(String(job.progress.step).split(/[:/]/)[0]); // `video/transcribing:3/20` is the step `video`
    announcePercent(job);
  }

  startAttempt(job) {
    this.attempt = job.attempt;
    this.steps = [...(STEPS[job.job_type] ?? [])];
    if (job.parameters?.include_transcript === false) this.steps = this.steps.filter((name) => !/decoding|transcribing/.test(name));
    this.current = -1;
    this.stepStart = null;
    render(this.container, html`<div class="card running">${progressBar(job)}<p><strong></strong> <span></span> <span class="muted right"></span></p><ol class="steps" aria-label="${t("job.steps")}"></ol></div>`);
  }

  /** By the speed of the current step since it was first seen; else by the percentage. */
  remainingTime(job) {
    const [, name, done, total] = /^(.*):([\d.]+)\/([\d.]+)$/.exec(job.progress.step) ?? [];
    if (!total) return eta(job);
    const now = performance.now() / 1000;
    if (this.stepStart?.name !== name) this.stepStart = { name, done: Number(done), at: now };
    const advanced = Number(done) - this.stepStart.done;
    if (Number(done) === 0) return ""; // the percentage is still that of earlier steps
    if (advanced <= 0) return eta(job);
    return t("job.eta", { time: clock(((Number(total) - done) * (now - this.stepStart.at)) / advanced) });
  }

  markStep(name) {
    if (this.steps.length === 0 || name === "queued" || this.steps[this.current] === name) return;
    if (!this.steps.includes(name)) this.steps.splice(this.current + 1, 0, name);
    this.current = this.steps.indexOf(name);
    render(this.container.querySelector(".steps"), this.steps.map((step, i) => {
      const state = i < this.current ? "done" : i === this.current ? "current" : "upcoming";
      const label = html`<span aria-hidden="true">${STEP_ICONS[state]}</span> ${t(`stage.${step}`, {}, t(`step.${step}`, {}, step.replaceAll("_", " ")))}<span class="visually-hidden"> (${t(`steps.${state}`)})</span>`;
      return state === "current" ? html`<li class="current" aria-current="step">${label}</li>` : html`<li class="${state}">${label}</li>`;
    }));
  }
}

/** `2 of 10 pages are done` or `processing_pages:3/10` add nothing to the step `processing_pages:2/10`. */
function isRedundant(progress, label) {
  const [name, count] = String(progress.step).split(":");
  const message = progress.message ?? "";
  if (progressText(progress) === label || message.split(":")[0] === name) return true;
  return Boolean(count) && [count, count.replace("/", " of ")].some((text) => message.startsWith(text));
}

let lastAnnounced = "";
/** Announces progress to screen readers every ten percent. */
function announcePercent(job) {
  const tenth = `${job.job_id} ${Math.floor(job.progress.percent / 10)}`;
  if (job.status !== "processing" || tenth === lastAnnounced) return;
  lastAnnounced = tenth;
  announce(`${job.progress.percent} %`);
}

const LEVELS = ["debug", "info", "warning", "error"];
const LEVEL_STORAGE = "secretary.log-level";
const END_TOLERANCE = 40; // pixels

/** The log of a job. New lines are appended, lines already shown stay where they are. */
export class JobLog {
  constructor(container, { live }) {
    const stored = sessionStorage.getItem(LEVEL_STORAGE);
    this.entries = [];
    this.minLevel = LEVELS.includes(stored) ? stored : "debug";
    render(container, html`<div class="bar log-controls"><label>${t("logs.level")} <select id="min-level">${LEVELS.map((level) =>
      html`<option value="${level}" ${flag("selected", level === this.minLevel)}>${t(`logs.level_${level}`)}</option>`)}</select></label>
      <label class="check" ${flag("hidden", !live)}><input type="checkbox" id="follow" ${flag("checked", live)}> ${t("logs.follow")}</label><span class="muted" id="count" role="status"></span></div>
      <ol class="log" tabindex="0" aria-label="${t("tab.logs")}"></ol><p class="empty" hidden>${t("logs.none")}</p>`);
    this.list = container.querySelector(".log");
    this.empty = container.querySelector(".empty");
    this.count = container.querySelector("#count");
    this.follow = container.querySelector("#follow");
    this.list.dataset.minLevel = this.minLevel;
    container.querySelector("#min-level").addEventListener("change", (event) => this.setLevel(event.target.value));
    this.follow.addEventListener("change", () => this.scrollToEnd());
    // Scrolling up stops following, scrolling back to the end resumes it.
    this.list.addEventListener("scroll", () => (this.follow.checked = this.isAtEnd), { passive: true });
  }

  get isAtEnd() {
    return this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < END_TOLERANCE;
  }

  setLevel(level) {
    this.minLevel = this.list.dataset.minLevel = level;
    sessionStorage.setItem(LEVEL_STORAGE, level);
    this.updateCount();
    this.scrollToEnd();
  }

  /** Takes the complete log; only lines after the last one shown are drawn. */
  update(entries) {
    const last = this.entries.at(-1);
    const lastIndex = last ? entries.findLastIndex((entry) => entryKey(entry) === entryKey(last)) : -1;
    const isFollowing = this.follow.checked; // drawing triggers scroll events
    // Long logs are truncated at the beginning: then the lines shown are no longer the first ones.
    const continues = lastIndex >= 0 && lastIndex === this.entries.length - 1 && entryKey(entries[0]) === entryKey(this.entries[0]);
    if (!continues) this.list.replaceChildren();
    const lines = render(document.createElement("template"), entries.slice(continues ? lastIndex + 1 : 0).map(logLine));
    this.list.append(lines.content);
    this.entries = entries;
    this.updateCount();
    this.follow.checked = isFollowing;
    this.scrollToEnd();
  }

  updateCount() {
    const shown = this.entries.filter((entry) => severity(entry.level) >= severity(this.minLevel)).length;
    this.empty.hidden = shown > 0;
    this.list.hidden = shown === 0;
    const all = number(this.entries.length);
    this.count.textContent = shown === this.entries.length ? t("logs.count", { n: shown, all }) : t("logs.filtered", { shown: number(shown), all });
  }

  scrollToEnd(always = false) {
    if (always || this.follow.checked) this.list.scrollTop = this.list.scrollHeight;
  }
}

const entryKey = (entry) => `${entry.timestamp} ${entry.level} ${entry.message}`;
const severity = (level) => (level === "critical" ? 3 : Math.max(0, LEVELS.indexOf(level)));

function logLine(entry) {
  return html`<li class="level-${entry.level}"><time datetime="${entry.timestamp}" title="${dateTime(entry.timestamp)}">${new Date(entry.timestamp).toLocaleTimeString()}</time>
    <span class="level">${entry.level}</span> <span>${entry.message}</span></li>`;
}
