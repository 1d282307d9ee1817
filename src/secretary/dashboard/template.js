// One template: what it asks for, and how it does on a text.

import { get, post } from "./api.js";
import { html, render } from "./html.js";
import { doing } from "./notices.js";
import { t } from "./words.js";

export async function show(root, { id, left }) {
  const one = await get(`/api/templates/${encodeURIComponent(id)}`, { signal: left });
  render(root, html`<p class="crumbs"><a href="#/templates">${t("menu.templates")}</a></p><h1>${one.name}</h1><p>${one.title}</p>
    ${one.faults.length ? html`<section class="card failure"><h2>${t("templates.broken")}</h2><ul>${one.faults.map((fault) => html`<li>${fault.line}: ${fault.message}</li>`)}</ul></section>` : ""}
    <form id="try" class="card"><h2>${t("templates.try")}</h2><label for="text">${t("templates.text")}</label><textarea id="text" name="text" rows="6" required></textarea>
      <p><button type="submit">${t("templates.run")}</button></p></form>
    <h2>${t("templates.fields")}</h2>
    <table class="list"><thead><tr><th scope="col">${t("col.name")}</th><th scope="col">${t("col.type")}</th><th scope="col">${t("templates.instruction")}</th></tr></thead>
      <tbody>${one.fields.map((field) => html`<tr><td><code>${field.name}</code></td><td>${field.type}</td><td>${field.instruction}</td></tr>`)}</tbody></table>
    ${one.context_keys.length ? html`<p>${t("templates.context")} ${one.context_keys.map((name) => html`<code>${name}</code> `)}</p>` : ""}
    <details><summary>${t("templates.content")}</summary><pre class="plain">${one.content ?? ""}</pre></details>`);
  const form = root.querySelector("#try");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    doing(form.querySelector("button"), async () => {
      const parameters = { text: form.elements.text.value, template: one.name };
      const { job_id } = await post("/api/jobs", { job_type: "transformer", job_name: t("templates.job", { name: one.name }), parameters });
      location.hash = `#/job/${job_id}`;
    });
  });
}
