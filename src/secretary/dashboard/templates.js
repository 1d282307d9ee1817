// The templates there are.

import { get } from "./api.js";
import { html, render } from "./html.js";
import { t } from "./words.js";

export async function show(root, { left }) {
  const { templates } = await get("/api/templates", { signal: left });
  render(root, html`<h1>${t("menu.templates")}</h1><p class="faint">${t("templates.what")}</p>
    <table class="list"><thead><tr><th scope="col">${t("col.name")}</th><th scope="col">${t("templates.title")}</th><th scope="col">${t("templates.language")}</th>
      <th scope="col">${t("templates.source")}</th><th scope="col" class="num">${t("templates.fields")}</th></tr></thead><tbody>${templates.map((one) => html`<tr data-row tabindex="0">
      <td class="cell-name"><a href="#/template/${encodeURIComponent(one.name)}">${one.name}</a>${one.faults.length ? html` <span class="code">${t("templates.faults", { n: one.faults.length })}</span>` : ""}</td>
      <td>${one.title}</td><td>${one.language ?? "–"}</td><td>${t(`templates.${one.source}`)}</td><td class="num">${one.fields.length}</td></tr>`)}</tbody></table>`);
}
