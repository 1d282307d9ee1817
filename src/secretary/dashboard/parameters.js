// What a job was asked to do; and the same once more, with changes.

import { get, post } from "./api.js";
import { size } from "./format.js";
import { drawFields, fieldsOf, flat, valuesOf } from "./forms.js";
import { html, render } from "./html.js";
import { reason, tell } from "./notices.js";
import { tableOf } from "./tables.js";
import { t } from "./words.js";

/** Draws it once: a form that someone fills in must not be drawn anew. */
export function drawParameters(panel, job, { field, left }) {
  const about = { priority: job.priority, run_at: job.run_at, max_attempts: job.max_attempts, timeout_s: job.timeout_s };
  const rows = [...Object.entries(job.parameters).filter(([, one]) => one !== null), ...Object.entries(about).filter(([, one]) => one)];
  render(panel, html`${rows.length ? html`<table class="pairs"><tbody>${rows.map(([name, one]) => html`<tr><th scope="row"><code>${name}</code></th><td>${name === "file_source" && one.type === "upload" ? html`${one.name} <span class="faint">${size(one.size ?? 0)}</span>` : tableOf(one)}</td></tr>`)}</tbody></table>` : html`<p class="empty">${t("change.none")}</p>`}
    <div id="change"><p><button type="button" class="quiet" id="open-change">${t("do.change")}</button></p></div>`);
  const open = () => openForm(panel.querySelector("#change"), job, field, left);
  panel.querySelector("#open-change").addEventListener("click", open);
  if (field !== null) open();
}

const wasUploaded = (job) => job.parameters.file_source?.type === "upload" && job.status === "completed";
export const hasUploadKept = (job) => wasUploaded(job) && Boolean(job.results?.recording?.url);
export const isGone = (job) => wasUploaded(job) && !job.results?.recording?.url;

async function openForm(place, job, field, left) {
  if (isGone(job)) {
    render(place, html`<p class="card calm">${t("submit.file_again", { name: job.parameters.file_source.name })} <a href="#/new?again=${job.job_id}">${t("do.change")}</a></p>`);
    return;
  }
  const [types, templates] = await Promise.all([
    get("/api/job-types", { signal: left }).then((told) => told.job_types),
    get("/api/templates", { signal: left }).then((told) => told.templates, () => []),
  ]);
  const schema = types.find((one) => one.job_type === job.job_type)?.parameters;
  const before = flat(job.parameters);
  const form = new Form(place, job, schema?.properties && Object.keys(schema.properties).length ? schema : null, before);
  form.draw(templates, field);
}

class Form {
  constructor(place, job, schema, before) {
    Object.assign(this, { place, job, schema, before });
  }

  draw(templates, field) {
    const { url } = this.before;
    const fields = this.schema ? drawFields(this.schema, this.before, templates)
      : html`<label for="f-all">${t("change.all")}</label><textarea id="f-all" name="all" rows="8" spellcheck="false">${JSON.stringify(this.before, null, 2)}</textarea>`;
    render(this.place, html`<form class="card submit" id="again"><h2>${t("do.change")}</h2><p class="faint">${t("change.how")}</p>
      ${this.schema && url && html`<div class="field wide"><label for="f-url">${t("change.url")}</label><input id="f-url" name="url" type="url" value="${url}" required></div>`}
      ${fields}<p class="actions"><button type="submit">${t("change.send")}</button></p><p class="wrong" role="alert"></p></form>`);
    const form = this.place.querySelector("form");
    form.addEventListener("input", () => (form.dataset.dirty = "yes"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(form);
    });
    const input = (field && form.elements[field]) || form.querySelector("input, select, textarea");
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    form.scrollIntoView({ block: "nearest" });
    input.focus();
  }

  /** Only what differs, with null for what is to be as if nobody had said it. None at all where something does not fit,
   * which is then said there. */
  changes(form) {
    if (!this.schema) {
      const all = parsed(form.elements.all);
      const gone = Object.keys(this.before).filter((name) => !(name in all));
      return differing(this.before, { ...all, ...Object.fromEntries(gone.map((name) => [name, null])) });
    }
    const values = valuesOf(form, this.schema);
    if (!values) return null;
    const after = Object.fromEntries(fieldsOf(this.schema).map(({ name }) => [name, values[name] ?? null]));
    const defaults = Object.fromEntries(fieldsOf(this.schema).map((one) => [one.name, one.default ?? null]));
    const url = form.elements.url?.value.trim();
    return differing({ ...defaults, ...this.before }, { ...after, ...(url && { url }) }, defaults);
  }

  async send(form) {
    const wrong = form.querySelector(".wrong");
    const button = form.querySelector("[type=submit]");
    wrong.textContent = "";
    button.disabled = true;
    try {
      const parameters = this.changes(form);
      if (!parameters) return form.querySelector("[aria-invalid]").focus();
      const { job_id } = await post(`/api/jobs/${encodeURIComponent(this.job.job_id)}/again`, { parameters });
      tell(t("submit.made"));
      location.hash = `#/job/${job_id}`;
    } catch (error) {
      const gone = error.status === 409;
      render(wrong, html`${reason(error)}${gone && html` <a href="#/new?again=${this.job.job_id}">${t("submit.title")}</a>`}`);
    } finally {
      button.disabled = false;
    }
    return undefined;
  }
}

function differing(before, after, defaults = {}) {
  const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
  const pairs = Object.entries(after).filter(([name, value]) => !same(before[name], value ?? defaults[name]));
  return Object.fromEntries(pairs);
}

function parsed(input) {
  try {
    const all = JSON.parse(input.value || "{}");
    if (all !== null && typeof all === "object" && !Array.isArray(all)) return all;
  } catch {
    // said below
  }
  input.focus();
  throw new Error(t("submit.no_json"));
}
