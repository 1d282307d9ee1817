// One job: what came out; or why it failed, and what can be done.

import { get, post, save, send, stream } from "./api.js";
import { hasEnded, progressAfter, statusOf } from "./changes.js";
import { failureOf } from "./failure.js";
import { ago, duration, nameOf, state, took } from "./format.js";
import { flag, html, render } from "./html.js";
import { attempts, deliveries, isTelling, resources } from "./ledger.js";
import { Log } from "./logs.js";
import { announce, complain, confirmed, connection, doing, tell } from "./notices.js";
import { PagesSoFar } from "./pages.js";
import { drawParameters, hasUploadKept, isGone } from "./parameters.js";
import { drawResult } from "./result.js";
import { Steps } from "./steps.js";
import { t } from "./words.js";

const TABS = ["result", "logs", "attempts", "parameters", "deliveries", "resources"];
const READ_AGAIN = 1500;
const TOLD_AGAIN = 3000;
/** Their pages can be read while they run. */
const PAGED = ["pdf", "office", "imageocr"];

export async function show(root, { id, query, left, shown }) {
  const page = new Page(root, id, query, left);
  await page.load();
  page.draw();
  shown();
  page.log?.toEnd(); // nothing scrolls before it is shown
  page.follow();
}

class Page {
  constructor(root, id, query, left) {
    Object.assign(this, { root, id, left });
    this.tab = TABS.includes(query.get("tab")) ? query.get("tab") : null;
    this.field = query.get("change");
    this.reading = null;
    this.off = () => {};
    left.addEventListener("abort", () => {
      this.off();
      clearTimeout(this.reading);
      clearInterval(this.ticking);
    });
    this.ticking = setInterval(() => this.tick(), 1000);
  }

  get address() {
    return `/api/jobs/${encodeURIComponent(this.id)}`;
  }

  get ended() {
    return hasEnded(this.job.status);
  }

  tick() {
    if (!this.job) return;
    const { tab } = this.root.querySelector("#panel")?.dataset ?? {};
    if (this.job.status === "processing") this.drawProgress();
    // Lines of the log are no news of the stream, and those of the webhook come after the end.
    if (tab === "logs" && this.job.status === "processing") this.read(READ_AGAIN);
    if (tab === "deliveries" && isTelling(this.job)) this.read(TOLD_AGAIN);
  }

  async load() {
    const mine = (this.turn = (this.turn ?? 0) + 1);
    const job = await get(this.address, { signal: this.left });
    if (mine === this.turn) this.job = job; // an older answer may come later
    document.title = `${nameOf(this.job)} · Secretary`;
  }

  follow() {
    if (this.ended) return;
    this.off();
    this.off = stream(`${this.address}/stream`, ({ data }) => this.heard(data), connection(this.left));
  }

  heard(data) {
    const status = statusOf(data);
    this.job.progress = progressAfter(this.job, data);
    if (hasEnded(status)) {
      this.off();
      announce(`${nameOf(this.job)}: ${t(`state.${status}`)}`);
      this.read(0);
    } else {
      // The stream tells of the state; steps, attempts and the log are in the document.
      this.read(status === this.job.status ? READ_AGAIN : 0);
      this.drawProgress();
      this.soFar?.look();
    }
  }

  read(after) {
    if (this.reading && after) return;
    clearTimeout(this.reading);
    this.reading = setTimeout(async () => {
      this.reading = null;
      const before = this.job.status;
      try {
        await this.load();
      } catch (error) {
        return complain(error);
      }
      if (before === this.job.status) this.drawParts();
      else this.redraw();
      return undefined;
    }, after);
  }

  /** Another state: all of it is drawn anew, but what someone fills in, and where they read. */
  redraw() {
    const { scrollY } = window;
    const following = this.log?.follow.checked;
    if (this.root.querySelector("form[data-dirty]")) {
      this.drawParts();
      this.drawActions();
    } else this.draw();
    window.scrollTo(0, scrollY);
    if (following) this.log?.toEnd(true);
  }

  draw() {
    const { job } = this;
    const tab = this.tab ?? this.bestTab();
    const hidden = { deliveries: !job.webhook && !job.deliveries.length, resources: !job.processing_started_at && !job.attempts.length };
    this.soFar?.stop();
    this.soFar = null;
    render(this.root, html`
      <p class="crumbs"><a href="#/jobs">${t("menu.jobs")}</a>${job.batch_id && html` · <a href="#/batch/${job.batch_id}">${t("job.batch")}</a>`}</p>
      <header class="head"><div><h1>${nameOf(job)}</h1><p class="facts" id="facts"></p></div><div class="actions" id="actions"></div></header>
      <div id="progress"></div><div id="error"></div>
      <div class="tabs" role="tablist" aria-label="${t("job.parts")}">${TABS.filter((name) => !hidden[name]).map((name) => html`<a role="tab" id="tab-${name}"
        href="#/job/${job.job_id}?tab=${name}" aria-controls="panel" aria-selected="${name === tab ? "true" : "false"}">${t(`tab.${name}`)}</a>`)}</div>
      <section id="panel" role="tabpanel" aria-labelledby="tab-${tab}" tabindex="0" data-tab="${tab}"></section>`);
    this.steps = new Steps(this.root.querySelector("#progress"));
    this.drawPanel(this.root.querySelector("#panel"), tab);
    this.drawParts();
    this.drawActions();
  }

  /** What answers the question without a click. */
  bestTab() {
    const { job } = this;
    if (job.results || (PAGED.includes(job.job_type) && job.status === "processing")) return "result";
    return job.status === "failed" && !job.logs.length ? "attempts" : "logs";
  }

  drawPanel(panel, tab) {
    if (tab === "result") this.drawResult(panel);
    if (tab === "parameters") drawParameters(panel, this.job, { field: this.field, left: this.left });
    this.log = tab === "logs" ? new Log(panel, !this.ended) : null;
  }

  drawParts() {
    const panel = this.root.querySelector("#panel");
    const { tab } = panel.dataset;
    render(this.root.querySelector("#facts"), facts(this.job));
    this.drawProgress();
    render(this.root.querySelector("#error"), failureOf(this.job));
    this.root.querySelector("#error [data-fix]")?.addEventListener("click", (event) => this.fix(event.currentTarget));
    this.log?.update(this.job.logs);
    this.soFar?.look();
    const table = { attempts, deliveries, resources }[tab];
    if (table && !panel.querySelector("details[open]")) this.drawTable(panel, table);
  }

  drawTable(panel, table) {
    render(panel, table(this.job));
    for (const button of panel.querySelectorAll("[data-replay]")) {
      button.addEventListener("click", () => doing(button, async () => {
        await post(`${this.address}/deliveries/${button.dataset.replay}/replay`);
        tell(t("delivery.replayed"));
        this.read(READ_AGAIN);
      }));
    }
  }

  drawResult(panel) {
    const { job } = this;
    if (job.results) drawResult(panel, job, this.left);
    else if (PAGED.includes(job.job_type) && job.status === "processing") this.soFar = new PagesSoFar(panel, job, this.left);
    else render(panel, html`<p class="empty">${t(this.ended ? "result.none" : "result.not_yet")}</p>`);
  }

  drawProgress() {
    const place = this.root.querySelector("#progress");
    if (!place) return;
    if (this.ended) render(place, null);
    else this.steps.draw(this.job);
  }

  drawActions() {
    const { job, ended } = this;
    const place = this.root.querySelector("#actions");
    const archive = job.results?.archive_url;
    render(place, html`
      ${!ended && html`<button type="button" data-do="cancel" data-key="c" ${flag("disabled", job.cancel_requested)}>${t("do.cancel")}</button>`}
      ${archive && html`<button type="button" data-do="zip">↓ ${t("do.zip")}</button>`}
      ${ended && this.restart()}
      ${ended && html`<a class="button quiet" href="#/job/${job.job_id}?tab=parameters&change=">${t("do.change")}</a>`}
      ${job.archived ? html`<button type="button" class="quiet" data-do="unarchive">${t("do.unarchive")}</button>` : ended && html`<button type="button" class="quiet" data-do="archive">${t("do.archive")}</button>`}
      ${ended && html`<button type="button" class="quiet danger" data-do="delete">${t("do.delete")}</button>`}`);
    for (const button of place.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => doing(button, () => this.act(button.dataset.do)));
    }
  }

  /** A file that came with a completed job is gone, unless it was kept as its recording. */
  restart() {
    const { job } = this;
    if (isGone(job)) return html`<a class="button quiet" href="#/new?again=${job.job_id}" data-key="r">${t("do.restart")}</a>`;
    return html`<button type="button" class="quiet" data-do="${hasUploadKept(job) ? "again" : "restart"}" data-key="r">${t("do.restart")}</button>`;
  }

  fix(button) {
    return doing(button, () => this.act(button.dataset.fix));
  }

  async act(name) {
    if (name === "zip") return save(this.job.results.archive_url, this.job.results.archive_filename ?? `${this.id}.zip`);
    if (name === "delete") {
      if (!(await confirmed(t("job.sure_delete"), t("do.delete")))) return undefined;
      await send("DELETE", this.address);
      tell(t("done.delete"));
      location.hash = "#/jobs";
      return undefined;
    }
    if (name === "again") {
      const { job_id } = await post(`${this.address}/again`, {});
      tell(t("submit.made"));
      location.hash = `#/job/${job_id}`;
      return undefined;
    }
    await post(`${this.address}/${name}`);
    tell(t(`done.${name}`));
    await this.load();
    this.draw();
    return this.follow();
  }
}

function facts(job) {
  const seconds = took(job);
  const parts = [
    state(job.status),
    html`<span class="kind">${job.job_type}</span>`,
    job.user_id && html`<span>${t("job.by", { user: job.user_id })}</span>`,
    html`<span>${t("job.created")} ${ago(job.created_at)}</span>`,
    job.completed_at && seconds !== null && html`<span>${t("job.took", { time: duration(seconds) })}</span>`,
    job.results?.is_from_cache && html`<span class="tag">${t("job.cached")}</span>`,
    job.archived && html`<span class="tag">${t("job.archived")}</span>`,
    job.cancel_requested && !hasEnded(job.status) && html`<span class="tag">${t("job.cancelling")}</span>`,
    html`<code class="id">${job.job_id}</code>`,
  ];
  return html`${parts.filter(Boolean)}`;
}
