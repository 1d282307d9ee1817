// The parameters tab of a job, and the form to re-run the job with changes.

import { get, post } from "./api.js";
import { dataTable, size } from "./format.js";
import { drawFields, fieldsOf, formValues, readValues } from "./forms.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";
import { errorMessage, notify } from "./notifications.js";

/** Draws the tab once: a form that is being filled in must not be redrawn. `field` is the one to focus, null to leave the form closed. */
export function drawParameters(panel, job, { field, signal }) {
  const options = { priority: job.priority, run_at: job.run_at, max_attempts: job.max_attempts, timeout_s: job.timeout_s };
  const rows = [...Object.entries(job.parameters).filter(([, value]) => value !== null), ...Object.entries(options).filter(([, value]) => value)];
  render(panel, html`${rows.length ? html`<table class="pairs"><tbody>${rows.map(([name, value]) => html`<tr><th scope="row"><code>${name}</code></th><td>${parameterValue(name, value)}</td></tr>`)}</tbody></table>` : html`<p class="empty">${t("rerun.no_parameters")}</p>`}
    <div id="rerun"><p><button type="button" class="secondary" id="open-rerun">${t("action.change")}</button></p></div>`);
  const open = () => openForm(panel.querySelector("#rerun"), job, field, signal);
  panel.querySelector("#open-rerun").addEventListener("click", open);
  if (field !== null) open();
}

function parameterValue(name, value) {
  const isUpload = name === "file_source" && value.type === "upload";
  return isUpload ? html`${value.name} <span class="muted">${size(value.size ?? 0)}</span>` : dataTable(value);
}

/** Uploads are deleted when their job completes, unless they are stored as its recording. */
const isCompletedUpload = (job) => job.parameters.file_source?.type === "upload" && job.status === "completed";
export const isUploadStored = (job) => isCompletedUpload(job) && Boolean(job.results?.recording?.url);
export const isUploadDeleted = (job) => isCompletedUpload(job) && !job.results?.recording?.url;

async function openForm(container, job, field, signal) {
  if (isUploadDeleted(job)) {
    render(container, html`<p class="card info">${t("submit.choose_again", { name: job.parameters.file_source.name })} <a href="#/new?again=${job.job_id}">${t("action.change")}</a></p>`);
    return;
  }
  const [jobTypes, templates] = await Promise.all([
    get("/api/job-types", { signal }).then((body) => body.job_types),
    get("/api/templates", { signal }).then((body) => body.templates, () => []),
  ]);
  const schema = jobTypes.find((jobType) => jobType.job_type === job.job_type)?.parameters;
  const hasFields = schema?.properties && Object.keys(schema.properties).length;
  new RerunForm(container, job, hasFields ? schema : null).draw(templates, field);
}

class RerunForm {
  /** Without a schema the parameters are edited as JSON. */
  constructor(container, job, schema) {
    Object.assign(this, { container, job, schema, original: formValues(job.parameters) });
  }

  draw(templates, field) {
    const { url } = this.original;
    const fields = this.schema ? drawFields(this.schema, this.original, templates)
      : html`<label for="f-json">${t("rerun.json")}</label><textarea id="f-json" name="json" rows="8" spellcheck="false">${JSON.stringify(this.original, null, 2)}</textarea>`;
    render(this.container, html`<form class="card submit" id="rerun-form"><h2>${t("action.change")}</h2><p class="muted">${t("rerun.hint")}</p>
      ${this.schema && url && html`<div class="field wide"><label for="f-url">${t("rerun.url")}</label><input id="f-url" name="url" type="url" value="${url}" required></div>`}
      ${fields}<p class="actions"><button type="submit">${t("rerun.run")}</button></p><p class="form-error" role="alert"></p></form>`);
    const form = this.container.querySelector("form");
    form.addEventListener("input", () => (form.dataset.dirty = "yes"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(form);
    });
    const input = (field && form.elements[field]) || form.querySelector("input, select, textarea");
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    form.scrollIntoView({ block: "nearest" });
    input.focus();
  }

  /** The parameters that changed, with null for those to reset; null if something is invalid, which is then shown. */
  changes(form) {
    if (!this.schema) {
      const edited = parseObject(form.elements.json);
      const removed = Object.keys(this.original).filter((name) => !(name in edited));
      return differences(this.original, { ...edited, ...Object.fromEntries(removed.map((name) => [name, null])) });
    }
    const values = readValues(form, this.schema);
    if (!values) return null;
    const fields = fieldsOf(this.schema);
    const edited = Object.fromEntries(fields.map(({ name }) => [name, values[name] ?? null]));
    const defaults = Object.fromEntries(fields.map((field) => [field.name, field.default ?? null]));
    const url = form.elements.url?.value.trim();
    return differences({ ...defaults, ...this.original }, { ...edited, ...(url && { url }) }, defaults);
  }

  async submit(form) {
    const message = form.querySelector(".form-error");
    const button = form.querySelector("[type=submit]");
    message.textContent = "";
    button.disabled = true;
    try {
      const parameters = this.changes(form);
      if (!parameters) return form.querySelector("[aria-invalid]").focus();
      const { job_id } = await post(`/api/jobs/${encodeURIComponent(this.job.job_id)}/again`, { parameters });
      notify(t("submit.submitted"));
      location.hash = `#/job/${job_id}`;
    } catch (error) {
      const isFileDeleted = error.status === 409;
      render(message, html`${errorMessage(error)}${isFileDeleted && html` <a href="#/new?again=${this.job.job_id}">${t("submit.title")}</a>`}`);
    } finally {
      button.disabled = false;
    }
    return undefined;
  }
}

function differences(before, after, defaults = {}) {
  const isSame = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
  const changed = Object.entries(after).filter(([name, value]) => !isSame(before[name], value ?? defaults[name]));
  return Object.fromEntries(changed);
}

function parseObject(input) {
  try {
    const value = JSON.parse(input.value || "{}");
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // reported below
  }
  input.focus();
  throw new Error(t("submit.invalid_json"));
}
