// The list of templates, and one template: its fields, and a trial run on a text.

import { get, post, stream } from "./api.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";
import { isFinished, progressAfter, progressBar, progressText, statusOf } from "./job_status.js";
import { announce, connectionStatus, runAction } from "./notifications.js";
import { drawResult } from "./result.js";

export async function showList(root, { signal }) {
  const { templates } = await get("/api/templates", { signal });
  render(root, html`<h1>${t("menu.templates")}</h1><p class="muted">${t("templates.intro")}</p>
    <table class="list"><thead><tr><th scope="col">${t("col.name")}</th><th scope="col">${t("templates.title")}</th><th scope="col">${t("templates.language")}</th>
      <th scope="col">${t("templates.source")}</th><th scope="col" class="num">${t("templates.fields")}</th></tr></thead><tbody>${templates.map((template) => html`<tr data-row tabindex="0">
      <td class="cell-name"><a href="#/template/${encodeURIComponent(template.name)}">${template.name}</a>${template.faults.length ? html` <span class="code">${t("templates.errors", { n: template.faults.length })}</span>` : ""}</td>
      <td>${template.title}</td><td>${template.language ?? "–"}</td><td>${t(`templates.${template.source}`)}</td><td class="num">${template.fields.length}</td></tr>`)}</tbody></table>`);
}

export async function showTemplate(root, { id, signal }) {
  const [template, { engines }] = await Promise.all([
    get(`/api/templates/${encodeURIComponent(id)}`, { signal }),
    get("/api/system", { signal }),
  ]);
  // Only operators see the engines; other users learn from the trial run that there is no model.
  const hasNoModel = engines?.some((engine) => engine.subject === "chat" && engine.verdict !== "ok");
  render(root, html`<p class="breadcrumbs"><a href="#/templates">${t("menu.templates")}</a></p><h1>${template.name}</h1><p>${template.title}</p>
    ${template.faults.length ? html`<section class="card failure"><h2>${t("templates.invalid")}</h2><ul>${template.faults.map(({ line, message }) => html`<li>${line}: ${message}</li>`)}</ul></section>` : ""}
    <form id="try" class="card"><h2>${t("templates.try")}</h2>
      ${hasNoModel && html`<p class="card info" id="no-model">${t("templates.no_model")}</p>`}
      <label for="text">${t("templates.text")}</label><textarea id="text" name="text" rows="6" required></textarea>
      ${template.context_keys.length ? html`<details><summary>${t("templates.context")}</summary><div class="fields wide">${template.context_keys.map((name) =>
        html`<div class="field"><label>${name} <input data-context="${name}" autocomplete="off"></label></div>`)}</div></details>` : ""}
      <p><button type="submit">${t("templates.run")}</button></p></form>
    <section id="outcome" aria-live="polite"></section>
    <h2>${t("templates.fields")}</h2>
    <table class="list"><thead><tr><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th><th scope="col">${t("templates.instruction")}</th></tr></thead>
      <tbody>${template.fields.map((field) => html`<tr><td><code>${field.name}</code></td><td>${field.type}</td><td>${field.instruction}</td></tr>`)}</tbody></table>
    <details><summary>${t("templates.content")}</summary><pre class="plain">${template.content ?? ""}</pre></details>`);
  const form = root.querySelector("#try");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    runAction(form.querySelector("button"), () => tryTemplate(root.querySelector("#outcome"), template, form, signal));
  });
}

async function tryTemplate(container, template, form, signal) {
  const inputs = [...form.querySelectorAll("[data-context]")].filter((input) => input.value.trim());
  const context = Object.fromEntries(inputs.map((input) => [input.dataset.context, input.value.trim()]));
  const parameters = { text: form.elements.text.value, template: template.name, ...(inputs.length && { context }) };
  const { job } = await post("/api/jobs", { job_type: "transformer", job_name: t("templates.job", { name: template.name }), parameters });
  const finished = await waitForJob(container, job, signal);
  if (signal.aborted) return;
  announce(t(`state.${finished.status}`));
  const link = html`<a href="#/job/${finished.job_id}">${t("templates.view_job")}</a>`;
  if (finished.status !== "completed") {
    render(container, failureCard(finished, link, !form.querySelector("#no-model")));
    return;
  }
  render(container, html`<h2>${t("templates.result")}</h2><div id="panel"></div><p>${link}</p>`);
  drawResult(container.querySelector("#panel"), finished, signal);
  container.scrollIntoView({ block: "nearest" });
}

/** Shows the progress of a job and resolves to the finished job. */
function waitForJob(container, job, signal) {
  return new Promise((resolve, reject) => {
    const draw = () => render(container, html`<p class="card info">${progressBar(job)} <span class="muted">${progressText(job.progress) || t("step.queued")}</span></p>`);
    draw();
    const finish = () => (unsubscribe(), get(`/api/jobs/${job.job_id}`).then(resolve, reject));
    const unsubscribe = stream(`/api/jobs/${job.job_id}/stream`, ({ data }) => {
      job.status = statusOf(data);
      job.progress = progressAfter(job, data);
      if (isFinished(job.status)) finish();
      else draw();
    }, connectionStatus(signal));
    signal.addEventListener("abort", () => (unsubscribe(), resolve(job)), { once: true });
  });
}

function failureCard({ error }, link, explainModel) {
  const noModel = explainModel && error?.code === "ENGINE_UNAVAILABLE";
  return html`<section class="card failure" role="alert"><h2>${t(`code.${error?.code}`, {}, t("error.title"))} <span class="code">${error?.code}</span></h2>
    <p>${error?.message}</p>${noModel && html`<p>${t("templates.no_model")}</p>`}<p>${link}</p></section>`;
}
