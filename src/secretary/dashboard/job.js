// The page of one job: its status and actions, its result, and tabs with everything on record about it.

import { get, post, send, stream } from "./api.js";
import { download } from "./files.js";
import { ago, duration } from "./format.js";
import { flag, html, render } from "./html.js";
import { t } from "./i18n.js";
import { failureCard } from "./job_failure.js";
import { attemptsTable, deliveriesTable, hasPendingDelivery, resourcesTable } from "./job_history.js";
import { JobLog, JobProgress } from "./job_progress.js";
import { isFinished, jobName, progressAfter, runTime, stateBadge, statusOf } from "./job_status.js";
import { announce, confirm, connectionStatus, notify, notifyError, runAction } from "./notifications.js";
import { LivePages } from "./pages.js";
import { drawParameters, isUploadDeleted, isUploadStored } from "./parameters.js";
import { drawResult } from "./result.js";

const TABS = ["result", "logs", "attempts", "parameters", "deliveries", "resources"];
const TABLES = { attempts: attemptsTable, deliveries: deliveriesTable, resources: resourcesTable };
const RELOAD_DELAY = 1500;
const DELIVERY_RELOAD_DELAY = 3000;
/** Job types whose pages can be read while they run. */
const PAGED_TYPES = ["pdf", "office", "imageocr"];

export async function show(root, { id, query, signal, onReady }) {
  const page = new JobPage(root, id, query, signal);
  await page.load();
  page.draw();
  onReady();
  page.log?.scrollToEnd(); // only works once the view is visible
  page.subscribe();
}

class JobPage {
  constructor(root, id, query, signal) {
    Object.assign(this, { root, id, signal });
    this.requestedTab = TABS.includes(query.get("tab")) ? query.get("tab") : null;
    this.rerunField = query.get("change");
    this.loads = 0;
    this.reloadTimer = null;
    this.unsubscribe = () => {};
    const ticker = setInterval(() => this.tick(), 1000);
    signal.addEventListener("abort", () => {
      this.unsubscribe();
      clearTimeout(this.reloadTimer);
      clearInterval(ticker);
    });
  }

  get path() {
    return `/api/jobs/${encodeURIComponent(this.id)}`;
  }

  get finished() {
    return isFinished(this.job.status);
  }

  get isPagedAndRunning() {
    return PAGED_TYPES.includes(this.job.job_type) && this.job.status === "processing";
  }

  tick() {
    if (!this.job) return;
    const { tab } = this.root.querySelector("#panel")?.dataset ?? {};
    if (this.job.status === "processing") this.drawProgress();
    // The stream reports no log lines, and it ends before the webhook is delivered.
    if (tab === "logs" && this.job.status === "processing") this.reload(RELOAD_DELAY);
    if (tab === "deliveries" && hasPendingDelivery(this.job)) this.reload(DELIVERY_RELOAD_DELAY);
  }

  async load() {
    const load = ++this.loads;
    const job = await get(this.path, { signal: this.signal });
    if (load === this.loads) this.job = job; // an older response may arrive later
    document.title = `${jobName(this.job)} · Secretary`;
  }

  subscribe() {
    if (this.finished) return;
    this.unsubscribe();
    this.unsubscribe = stream(`${this.path}/stream`, ({ data }) => this.onEvent(data), connectionStatus(this.signal));
  }

  onEvent(data) {
    const status = statusOf(data);
    this.job.progress = progressAfter(this.job, data);
    if (isFinished(status)) {
      this.unsubscribe();
      announce(`${jobName(this.job)}: ${t(`state.${status}`)}`);
      this.reload(0);
    } else {
      // Events carry the state only; steps, attempts and the log come with the job itself.
      this.reload(status === this.job.status ? RELOAD_DELAY : 0);
      this.drawProgress();
      this.livePages?.refresh();
    }
  }

  reload(delay) {
    if (this.reloadTimer && delay) return;
    clearTimeout(this.reloadTimer);
    this.reloadTimer = setTimeout(async () => {
      this.reloadTimer = null;
      const before = this.job.status;
      try {
        await this.load();
      } catch (error) {
        return notifyError(error);
      }
      if (before === this.job.status) this.drawParts();
      else this.redraw();
      return undefined;
    }, delay);
  }

  /** Redraws everything after a status change, except a form that is being filled in; keeps the scroll position. */
  redraw() {
    const { scrollY } = window;
    const isFollowing = this.log?.follow.checked;
    if (this.root.querySelector("form[data-dirty]")) {
      this.drawParts();
      this.drawActions();
    } else this.draw();
    window.scrollTo(0, scrollY);
    if (isFollowing) this.log?.scrollToEnd(true);
  }

  draw() {
    const { job } = this;
    const tab = this.requestedTab ?? this.defaultTab();
    const hidden = { deliveries: !job.webhook && !job.deliveries.length, resources: !job.processing_started_at && !job.attempts.length };
    this.livePages?.stop();
    this.livePages = null;
    render(this.root, html`
      <p class="breadcrumbs"><a href="#/jobs">${t("menu.jobs")}</a>${job.batch_id && html` · <a href="#/batch/${job.batch_id}">${t("job.batch")}</a>`}</p>
      <header class="head"><div><h1>${jobName(job)}</h1><p class="facts" id="facts"></p></div><div class="actions" id="actions"></div></header>
      <div id="progress"></div><div id="error"></div>
      <div class="tabs" role="tablist" aria-label="${t("job.sections")}">${TABS.filter((name) => !hidden[name]).map((name) => html`<a role="tab" id="tab-${name}"
        href="#/job/${job.job_id}?tab=${name}" aria-controls="panel" aria-selected="${name === tab ? "true" : "false"}">${t(`tab.${name}`)}</a>`)}</div>
      <section id="panel" role="tabpanel" aria-labelledby="tab-${tab}" tabindex="0" data-tab="${tab}"></section>`);
    this.progress = new JobProgress(this.root.querySelector("#progress"));
    this.drawPanel(this.root.querySelector("#panel"), tab);
    this.drawParts();
    this.drawActions();
  }

  /** The tab that is most likely wanted in the job's state. */
  defaultTab() {
    const { job } = this;
    if (job.results || this.isPagedAndRunning) return "result";
    return job.status === "failed" && !job.logs.length ? "attempts" : "logs";
  }

  drawPanel(panel, tab) {
    if (tab === "result") this.drawResult(panel);
    if (tab === "parameters") drawParameters(panel, this.job, { field: this.rerunField, signal: this.signal });
    this.log = tab === "logs" ? new JobLog(panel, { live: !this.finished }) : null;
  }

  /** Draws what changes while the status stays the same. */
  drawParts() {
    const panel = this.root.querySelector("#panel");
    render(this.root.querySelector("#facts"), facts(this.job));
    this.drawProgress();
    render(this.root.querySelector("#error"), failureCard(this.job));
    const fix = this.root.querySelector("#error [data-action]");
    fix?.addEventListener("click", () => runAction(fix, () => this.act(fix.dataset.action)));
    this.log?.update(this.job.logs);
    this.livePages?.refresh();
    const table = TABLES[panel.dataset.tab];
    if (table && !panel.querySelector("details[open]")) this.drawTable(panel, table);
  }

  drawTable(panel, table) {
    render(panel, table(this.job));
    for (const button of panel.querySelectorAll("[data-resend]")) {
      button.addEventListener("click", () => runAction(button, async () => {
        await post(`${this.path}/deliveries/${button.dataset.resend}/replay`);
        notify(t("delivery.resent"));
        this.reload(RELOAD_DELAY);
      }));
    }
  }

  drawResult(panel) {
    const { job } = this;
    if (job.results) drawResult(panel, job, this.signal);
    else if (this.isPagedAndRunning) this.livePages = new LivePages(panel, job, this.signal);
    else render(panel, html`<p class="empty">${t(this.finished ? "result.none" : "result.not_yet")}</p>`);
  }

  drawProgress() {
    const container = this.root.querySelector("#progress");
    if (!container) return;
    if (this.finished) render(container, null);
    else this.progress.draw(this.job);
  }

  drawActions() {
    const { job, finished } = this;
    const container = this.root.querySelector("#actions");
    render(container, html`
      ${!finished && html`<button type="button" data-action="cancel" data-key="c" ${flag("disabled", job.cancel_requested)}>${t("action.cancel")}</button>`}
      ${job.results?.archive_url && html`<button type="button" data-action="zip">↓ ${t("action.zip")}</button>`}
      ${finished && this.rerunButton()}
      ${finished && html`<a class="button secondary" href="#/job/${job.job_id}?tab=parameters&change=">${t("action.change")}</a>`}
      ${job.archived ? html`<button type="button" class="secondary" data-action="unarchive">${t("action.unarchive")}</button>` : finished && html`<button type="button" class="secondary" data-action="archive">${t("action.archive")}</button>`}
      ${finished && html`<button type="button" class="secondary danger" data-action="delete">${t("action.delete")}</button>`}`);
    for (const button of container.querySelectorAll("[data-action]")) {
      button.addEventListener("click", () => runAction(button, () => this.act(button.dataset.action)));
    }
  }

  /** A deleted upload must be chosen again; one that is stored as the recording becomes the source of a new job. */
  rerunButton() {
    const { job } = this;
    if (isUploadDeleted(job)) return html`<a class="button secondary" href="#/new?again=${job.job_id}" data-key="r">${t("action.restart")}</a>`;
    return html`<button type="button" class="secondary" data-action="${isUploadStored(job) ? "again" : "restart"}" data-key="r">${t("action.restart")}</button>`;
  }

  async act(name) {
    if (name === "zip") return download(this.job.results.archive_url, this.job.results.archive_filename ?? `${this.id}.zip`);
    if (name === "delete") {
      if (!(await confirm(t("job.confirm_delete"), t("action.delete")))) return undefined;
      await send("DELETE", this.path);
      notify(t("toast.delete"));
      location.hash = "#/jobs";
      return undefined;
    }
    if (name === "again") {
      const { job_id } = await post(`${this.path}/again`, {});
      notify(t("submit.submitted"));
      location.hash = `#/job/${job_id}`;
      return undefined;
    }
    await post(`${this.path}/${name}`);
    notify(t(`toast.${name}`));
    await this.load();
    this.draw();
    return this.subscribe();
  }
}

function facts(job) {
  const seconds = runTime(job);
  const items = [
    stateBadge(job.status),
    html`<span class="badge">${job.job_type}</span>`,
    job.user_id && html`<span>${t("job.by", { user: job.user_id })}</span>`,
    html`<span>${t("job.created")} ${ago(job.created_at)}</span>`,
    job.completed_at && seconds !== null && html`<span>${t("job.duration", { time: duration(seconds) })}</span>`,
    job.results?.is_from_cache && html`<span class="tag">${t("job.cached")}</span>`,
    job.archived && html`<span class="tag">${t("job.archived")}</span>`,
    job.cancel_requested && !isFinished(job.status) && html`<span class="tag">${t("job.cancelling")}</span>`,
    html`<code class="id">${job.job_id}</code>`,
  ];
  return html`${items.filter(Boolean)}`;
}
