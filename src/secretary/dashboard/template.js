// One template: what it asks for, and how it does on a text.

import { get, post, stream } from "./api.js";
import { hasEnded, progressAfter, statusOf } from "./changes.js";
import { bar, saying } from "./format.js";
import { html, render } from "./html.js";
import { announce, connection, doing } from "./notices.js";
import { drawResult } from "./result.js";
import { t } from "./words.js";

export async function show(root, { id, left }) {
  const [one, { engines }] = await Promise.all([
    get(`/api/templates/${encodeURIComponent(id)}`, { signal: left }),
    get("/api/system", { signal: left }),
  ]);
  // Users who are no operators are not told which engines there are; they learn it from the try.
  const missing = engines?.some((engine) => engine.subject === "chat" && engine.verdict !== "ok");
  render(root, html`<p class="crumbs"><a href="#/templates">${t("menu.templates")}</a></p><h1>${one.name}</h1><p>${one.title}</p>
    ${one.faults.length ? html`<section class="card failure"><h2>${t("templates.broken")}</h2><ul>${one.faults.map((fault) => html`<li>${fault.line}: ${fault.message}</li>`)}</ul></section>` : ""}
    <form id="try" class="card"><h2>${t("templates.try")}</h2>
      ${missing && html`<p class="card calm" id="no-model">${t("templates.no_model")}</p>`}
      <label for="text">${t("templates.text")}</label><textarea id="text" name="text" rows="6" required></textarea>
      ${one.context_keys.length ? html`<details><summary>${t("templates.context")}</summary><div class="fields wide">${one.context_keys.map((name) =>
        html`<div class="field"><label>${name} <input data-context="${name}" autocomplete="off"></label></div>`)}</div></details>` : ""}
      <p><button type="submit">${t("templates.run")}</button></p></form>
    <section id="outcome" aria-live="polite"></section>
    <h2>${t("templates.fields")}</h2>
    <table class="list"><thead><tr><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th><th scope="col">${t("templates.instruction")}</th></tr></thead>
      <tbody>${one.fields.map((field) => html`<tr><td><code>${field.name}</code></td><td>${field.type}</td><td>${field.instruction}</td></tr>`)}</tbody></table>
    <details><summary>${t("templates.content")}</summary><pre class="plain">${one.content ?? ""}</pre></details>`);
  const form = root.querySelector("#try");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    doing(form.querySelector("button"), () => tryOut(root.querySelector("#outcome"), one, form, left));
  });
}

async function tryOut(place, template, form, left) {
  const given = [...form.querySelectorAll("[data-context]")].filter((input) => input.value.trim());
  const context = Object.fromEntries(given.map((input) => [input.dataset.context, input.value.trim()]));
  const parameters = { text: form.elements.text.value, template: template.name, ...(given.length && { context }) };
  const { job } = await post("/api/jobs", { job_type: "transformer", job_name: t("templates.job", { name: template.name }), parameters });
  const ended = await watched(place, job, left);
  if (left.aborted) return;
  announce(t(`state.${ended.status}`));
  const link = html`<a href="#/job/${ended.job_id}">${t("templates.whole")}</a>`;
  if (ended.status !== "completed") {
    render(place, failure(ended, link, !form.querySelector("#no-model")));
    return;
  }
  render(place, html`<h2>${t("templates.outcome")}</h2><div id="panel"></div><p>${link}</p>`);
  drawResult(place.querySelector("#panel"), ended, left);
  place.scrollIntoView({ block: "nearest" });
}

function failure({ error }, link, unsaid) {
  const noModel = unsaid && error?.code === "ENGINE_UNAVAILABLE";
  return html`<section class="card failure" role="alert"><h2>${t(`code.${error?.code}`, {}, t("error.title"))} <span class="code">${error?.code}</span></h2>
    <p>${error?.message}</p>${noModel && html`<p>${t("templates.no_model")}</p>`}<p>${link}</p></section>`;
}

/** The job when it has ended; until then its progress is shown. */
function watched(place, job, left) {
  return new Promise((resolve, reject) => {
    const draw = () => render(place, html`<p class="card calm">${bar(job)} <span class="faint">${saying(job.progress) || t("step.queued")}</span></p>`);
    draw();
    const end = () => (off(), get(`/api/jobs/${job.job_id}`).then(resolve, reject));
    const off = stream(`/api/jobs/${job.job_id}/stream`, ({ data }) => {
      job.status = statusOf(data);
      job.progress = progressAfter(job, data);
      if (hasEnded(job.status)) end();
      else draw();
    }, connection(left));
    left.addEventListener("abort", () => (off(), resolve(job)), { once: true });
  });
}
