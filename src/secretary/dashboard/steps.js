// A job on its way: the steps it takes, where it is, and how long it may take.

import { bar, clock, eta, exact, saying, step, took } from "./format.js";
import { html, render } from "./html.js";
import { announce } from "./notices.js";
import { t } from "./words.js";

const OPENING = ["initializing", "downloading_or_opening"];
const DOCUMENT = [...OPENING, "processing_pages", "postprocessing"];
/** What every job of a type does. Other steps stand among them once they are taken. */
const PLANS = {
  pdf: DOCUMENT, office: DOCUMENT, imageocr: DOCUMENT,
  audio: [...OPENING, "decoding", "transcribing", "postprocessing"],
  video: [...OPENING, "decoding", "transcribing", "looking_for_slides", "postprocessing"],
  transformer: [...OPENING, "postprocessing"],
  session: ["initializing", "reading_page", "slides", "video", "writing", "postprocessing"],
};

/** `video/transcribing:3/20` is the step `video`. */
const headOf = (progress) => String(progress.step).split(/[:/]/)[0];

/** `2 of 10 pages are done` says no more than `processing_pages:2/10`. */
function repeats(progress, said) {
  const count = String(progress.step).split(":")[1]?.replace("/", " of ");
  return saying(progress) === said || Boolean(count && progress.message?.startsWith(count)) || Boolean(count && progress.message?.startsWith(count.replace(" of ", "/")));
}

export class Steps {
  constructor(place) {
    this.place = place;
    this.attempt = null;
  }

  draw(job) {
    const waiting = job.status === "pending";
    if (this.attempt !== job.attempt || !this.place.firstElementChild) this.begin(job);
    const said = waiting ? (job.run_at ? t("job.waits_until", { time: exact(job.run_at) }) : t("job.waits")) : step(job.progress);
    const message = waiting || repeats(job.progress, said) ? "" : saying(job.progress);
    const seconds = took(job);
    const { percent } = job.progress;
    this.place.querySelector("progress").value = percent;
    const [strong, text, right] = this.place.querySelectorAll("p > *");
    strong.textContent = waiting ? t("state.pending") : `${percent} %`;
    text.textContent = [said, message].filter(Boolean).join(" · ");
    const left = waiting ? "" : this.left(job);
    right.textContent = waiting ? "" : [seconds === null ? "" : clock(seconds), left].filter(Boolean).join(" · ");
    right.title = left ? t("job.eta_how") : "";
    if (!waiting) this.mark(headOf(job.progress));
    announceTenth(job);
  }

  /** By the speed of this step since it was first seen; else by the percents. */
  left(job) {
    const [, name, done, total] = /^(.*):([\d.]+)\/([\d.]+)$/.exec(job.progress.step) ?? [];
    if (!total) return eta(job);
    const now = performance.now() / 1000;
    if (this.pace?.name !== name) this.pace = { name, done: Number(done), at: now };
    const gone = Number(done) - this.pace.done;
    if (Number(done) === 0) return ""; // percents stand for what came before
    if (gone <= 0) return eta(job);
    return t("job.eta", { time: clock(((Number(total) - done) * (now - this.pace.at)) / gone) });
  }

  begin(job) {
    this.attempt = job.attempt;
    this.plan = [...(PLANS[job.job_type] ?? [])];
    if (job.parameters?.include_transcript === false) this.plan = this.plan.filter((name) => !/decoding|transcribing/.test(name));
    this.at = -1;
    this.pace = null;
    render(this.place, html`<div class="card running">${bar(job)}<p><strong></strong> <span></span> <span class="faint right"></span></p><ol class="steps" aria-label="${t("job.steps")}"></ol></div>`);
  }

  mark(name) {
    if (this.plan.length === 0 || name === "queued" || this.plan[this.at] === name) return;
    const known = this.plan.indexOf(name);
    if (known < 0) this.plan.splice(this.at + 1, 0, name);
    this.at = this.plan.indexOf(name);
    render(this.place.querySelector(".steps"), this.plan.map((one, i) => {
      const state = i < this.at ? "done" : i === this.at ? "now" : "next";
      const sign = { done: "✓", now: "◐", next: "○" }[state];
      const told = html`<span aria-hidden="true">${sign}</span> ${t(`stage.${one}`, {}, t(`step.${one}`, {}, one.replaceAll("_", " ")))}<span class="unseen"> (${t(`steps.${state}`)})</span>`;
      return i === this.at ? html`<li class="now" aria-current="step">${told}</li>` : html`<li class="${state}">${told}</li>`;
    }));
  }
}

let announced = "";
function announceTenth(job) {
  const tenth = `${job.job_id} ${Math.floor(job.progress.percent / 10)}`;
  if (job.status !== "processing" || tenth === announced) return;
  announced = tenth;
  announce(`${job.progress.percent} %`);
}
