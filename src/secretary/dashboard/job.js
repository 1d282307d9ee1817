// One job: what came out; or why it failed, and what can be done.

import { get, post, save, send, stream } from "./api.js";
import { ago, bar, clock, duration, eta, exact, nameOf, number, saying, size, state, step, took } from "./format.js";
import { flag, html, render, safeLink } from "./html.js";
import { statusOf } from "./jobs.js";
import { announce, complain, confirmed, connection, doing, tell } from "./notices.js";
import { drawResult } from "./result.js";
import { t } from "./words.js";

const TABS = ["result", "logs", "attempts", "parameters", "deliveries", "resources"];
const READ_AGAIN = 1500;
const ENDED = ["completed", "failed", "cancelled"];

export async function show(root, { id, query, left, shown }) {
  const page = new Page(root, id, query.get("tab"), left);
  await page.load();
  page.draw();
  shown();
  page.follow();
}

class Page {
  constructor(root, id, tab, left) {
    Object.assign(this, { root, id, left });
    this.tab = TABS.includes(tab) ? tab : null;
    this.reading = null;
    this.off = () => {};
    left.addEventListener("abort", () => {
      this.off();
      clearTimeout(this.reading);
    });
    this.ticking = setInterval(() => this.job?.status === "processing" && this.drawProgress(), 1000);
    left.addEventListener("abort", () => clearInterval(this.ticking));
  }

  get address() {
    return `/api/jobs/${encodeURIComponent(this.id)}`;
  }

  async load() {
    const mine = (this.turn = (this.turn ?? 0) + 1);
    const job = await get(this.address, { signal: this.left });
    if (mine === this.turn) this.job = job; // an older answer may come later
    document.title = `${nameOf(this.job)} · Secretary`;
  }

  follow() {
    if (ENDED.includes(this.job.status)) return;
    this.off();
    this.off = stream(`${this.address}/stream`, ({ data }) => this.heard(data), connection(this.left));
  }

  heard(data) {
    const status = statusOf(data);
    const percent = data.data?.progress ?? this.job.progress.percent;
    this.job.progress = { ...this.job.progress, message: data.message, percent };
    if (ENDED.includes(status)) {
      this.off();
      announce(`${nameOf(this.job)}: ${t(`state.${status}`)}`);
      this.read(0);
    } else {
      // The stream tells of the state; steps, attempts and the log are in the document.
      this.read(status === this.job.status ? READ_AGAIN : 0);
      this.drawProgress();
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
      else this.draw();
      return undefined;
    }, after);
  }

  draw() {
    const { job } = this;
    const tab = this.tab ?? (job.results ? "result" : job.status === "failed" && !job.logs.length ? "attempts" : "logs");
    const hidden = { deliveries: !job.webhook && !job.deliveries.length, resources: !Object.keys(job.resources ?? {}).length };
    render(this.root, html`
      <p class="crumbs"><a href="#/jobs">${t("menu.jobs")}</a>${job.batch_id && html` · <a href="#/batch/${job.batch_id}">${t("job.batch")}</a>`}</p>
      <header class="head"><div><h1>${nameOf(job)}</h1><p class="facts" id="facts"></p></div><div class="actions" id="actions"></div></header>
      <div id="progress"></div><div id="error"></div>
      <div class="tabs" role="tablist" aria-label="${t("job.parts")}">${TABS.filter((name) => !hidden[name]).map((name) => html`<a role="tab" id="tab-${name}"
        href="#/job/${job.job_id}?tab=${name}" aria-controls="panel" aria-selected="${name === tab ? "true" : "false"}">${t(`tab.${name}`)}</a>`)}</div>
      <section id="panel" role="tabpanel" aria-labelledby="tab-${tab}" tabindex="0" data-tab="${tab}"></section>`);
    this.drawParts();
    if (tab === "result") this.drawResult();
    this.drawActions();
  }

  drawParts() {
    const panel = this.root.querySelector("#panel");
    const { tab } = panel.dataset;
    render(this.root.querySelector("#facts"), facts(this.job));
    this.drawProgress();
    render(this.root.querySelector("#error"), problem(this.job));
    this.root.querySelector("#error [data-fix]")?.addEventListener("click", (event) => this.fix(event.currentTarget));
    if (tab !== "result") this.drawPanel(panel, tab);
  }

  drawPanel(panel, tab) {
    const log = panel.querySelector(".log");
    const atEnd = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const drawn = { logs, attempts, parameters, deliveries, resources }[tab](this.job);
    render(panel, drawn);
    const now = panel.querySelector(".log");
    if (now && atEnd) now.scrollTop = now.scrollHeight;
    for (const button of panel.querySelectorAll("[data-replay]")) {
      button.addEventListener("click", () => doing(button, async () => {
        await post(`${this.address}/deliveries/${button.dataset.replay}/replay`);
        tell(t("delivery.replayed"));
        this.read(READ_AGAIN);
      }));
    }
  }

  drawResult() {
    const panel = this.root.querySelector("#panel");
    if (this.job.results) drawResult(panel, this.job, this.left);
    else render(panel, html`<p class="empty">${t(ENDED.includes(this.job.status) ? "result.none" : "result.not_yet")}</p>`);
  }

  drawProgress() {
    const { job } = this;
    const place = this.root.querySelector("#progress");
    if (!place) return;
    if (ENDED.includes(job.status)) return void render(place, null);
    const waiting = job.status === "pending";
    const said = waiting ? (job.run_at ? t("job.waits_until", { time: exact(job.run_at) }) : t("job.waits")) : step(job.progress);
    const message = waiting || saying(job.progress) === said ? "" : saying(job.progress);
    if (!place.querySelector("progress")) render(place, html`<div class="card running">${bar(job)}<p><strong></strong> <span></span> <span class="faint right"></span></p></div>`);
    place.querySelector("progress").value = job.progress.percent;
    const [strong, text, right] = place.querySelectorAll("p > *");
    strong.textContent = waiting ? t("state.pending") : `${job.progress.percent} %`;
    text.textContent = [said, message].filter(Boolean).join(" · ");
    const seconds = took(job);
    right.textContent = waiting ? "" : [seconds === null ? "" : clock(seconds), eta(job)].filter(Boolean).join(" · ");
    announceTenth(job);
    return undefined;
  }

  drawActions() {
    const { job } = this;
    const ended = ENDED.includes(job.status);
    const place = this.root.querySelector("#actions");
    const archive = job.results?.archive_url;
    render(place, html`
      ${!ended && html`<button type="button" data-do="cancel" data-key="c" ${flag("disabled", job.cancel_requested)}>${t("do.cancel")}</button>`}
      ${archive && html`<button type="button" data-do="zip">↓ ${t("do.zip")}</button>`}
      ${ended && html`<button type="button" class="quiet" data-do="restart" data-key="r">${t("do.restart")}</button>`}
      ${ended && !job.archived && html`<button type="button" class="quiet" data-do="archive">${t("do.archive")}</button>`}
      ${ended && html`<button type="button" class="quiet danger" data-do="delete">${t("do.delete")}</button>`}`);
    for (const button of place.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => doing(button, () => this.act(button.dataset.do)));
    }
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
    await post(`${this.address}/${name}`);
    tell(t(`done.${name}`));
    await this.load();
    this.draw();
    return this.follow();
  }
}

let announced = "";
function announceTenth(job) {
  const tenth = `${job.job_id} ${Math.floor(job.progress.percent / 10)}`;
  if (job.status !== "processing" || tenth === announced) return;
  announced = tenth;
  announce(`${job.progress.percent} %`);
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
    job.cancel_requested && !ENDED.includes(job.status) && html`<span class="tag">${t("job.cancelling")}</span>`,
    html`<code class="id">${job.job_id}</code>`,
  ];
  return html`${parts.filter(Boolean)}`;
}

/** What went wrong, in words, and what helps. */
function problem(job) {
  if (!job.error || job.status === "completed") return null;
  if (job.status === "cancelled") return html`<p class="card calm">${job.error.message}</p>`;
  const { code, message, details } = job.error;
  const attempt = job.attempts.at(-1);
  const again = job.status === "pending";
  const known = details && Object.keys(details).length;
  return html`<section class="card failure" role="${again ? "status" : "alert"}">
    <h2>${t(`code.${code}`, {}, code)} <span class="code">${code}</span></h2>
    <p>${message}</p>
    <p class="remedy"><strong>${t("job.remedy")}</strong> ${t(`remedy.${code}`, {}, t("remedy.other"))}</p>
    ${attempt && html`<p class="faint">${t("job.in_attempt", { n: attempt.attempt })}${again ? ` ${t("job.tries_again")}` : ""}</p>`}
    ${known ? html`<details><summary>${t("job.details")}</summary><pre>${JSON.stringify(details, null, 2)}</pre></details>` : ""}
    ${!again && html`<p class="actions"><button type="button" data-fix="restart">${t("do.restart")}</button>
      <a class="button quiet" href="#/new?again=${job.job_id}">${t("do.change")}</a></p>`}
  </section>`;
}

function logs(job) {
  if (!job.logs.length) return html`<p class="empty">${t("logs.none")}</p>`;
  return html`<ol class="log" tabindex="0" aria-label="${t("tab.logs")}">${job.logs.map((entry) => html`<li class="level-${entry.level}">
    <time datetime="${entry.timestamp}" title="${exact(entry.timestamp)}">${new Date(entry.timestamp).toLocaleTimeString()}</time>
    <span class="level">${entry.level}</span> <span>${entry.message}</span></li>`)}</ol>`;
}

function attempts(job) {
  if (!job.attempts.length) return html`<p class="empty">${t("attempts.none")}</p>`;
  return html`<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("col.started")}</th><th scope="col">${t("col.took")}</th>
    <th scope="col">${t("col.worker")}</th><th scope="col">${t("col.outcome")}</th></tr></thead><tbody>${job.attempts.map((one) => html`<tr>
    <td>${one.attempt}</td><td>${ago(one.started_at)}</td>
    <td>${one.ended_at ? duration((new Date(one.ended_at) - new Date(one.started_at)) / 1000) : t("attempts.running")}</td>
    <td><code>${one.worker_id ?? "–"}</code></td>
    <td>${one.error ? html`<span class="code">${one.error.code}</span> ${one.error.message}` : one.ended_at ? "✓" : ""}</td></tr>`)}</tbody></table>`;
}

function value(given) {
  if (given !== null && typeof given === "object") return html`<pre>${JSON.stringify(given, null, 2)}</pre>`;
  const link = safeLink(given);
  return link ? html`<a href="${link}" rel="noreferrer noopener" target="_blank">${link}</a>` : String(given);
}

function parameters(job) {
  const { password, ...given } = job.parameters;
  const rows = Object.entries(password ? { ...given, password: "••••" } : given).filter(([, one]) => one !== null);
  const about = { priority: job.priority, run_at: job.run_at, max_attempts: job.max_attempts, timeout_s: job.timeout_s };
  return html`<table class="pairs"><tbody>${[...rows, ...Object.entries(about).filter(([, one]) => one)].map(([name, one]) => html`<tr>
    <th scope="row"><code>${name}</code></th><td>${value(one)}</td></tr>`)}</tbody></table>
    <p><a class="button quiet" href="#/new?again=${job.job_id}">${t("do.change")}</a></p>`;
}

function deliveries(job) {
  const where = job.webhook && html`<p>${t("delivery.to")} <code>${job.webhook.url}</code></p>`;
  if (!job.deliveries.length) return html`${where}<p class="empty">${t("delivery.none")}</p>`;
  return html`${where}<table class="list"><thead><tr><th scope="col">#</th><th scope="col">${t("delivery.event")}</th><th scope="col">${t("col.state")}</th>
    <th scope="col">${t("delivery.tries")}</th><td></td></tr></thead><tbody>${job.deliveries.map((one) => {
    const last = one.tries.at(-1);
    return html`<tr><td>${one.n}</td><td>${one.event}</td>
      <td>${one.delivered_at ? html`${t("delivery.done")} ${ago(one.delivered_at)}` : one.gave_up ? t("delivery.gave_up") : one.next_try_at ? html`${t("delivery.next")} ${ago(one.next_try_at)}` : "–"}</td>
      <td>${one.tried}${last && html` <span class="faint">${last.status ?? last.error} · ${number(last.duration_ms)} ms</span>`}</td>
      <td>${one.event !== "progress" && html`<button type="button" class="quiet" data-replay="${one.n}">${t("delivery.replay")}</button>`}</td></tr>`;
  })}</tbody></table>`;
}

function resources(job) {
  const told = (name, amount) => (/bytes/.test(name) ? size(amount) : /seconds|_s$/.test(name) ? duration(amount) : number(amount));
  return html`<table class="pairs"><tbody>${Object.entries(job.resources).map(([name, amount]) => html`<tr>
    <th scope="row">${t(`resource.${name}`, {}, name.replaceAll("_", " "))}</th><td>${told(name, amount)}</td></tr>`)}</tbody></table>`;
}
