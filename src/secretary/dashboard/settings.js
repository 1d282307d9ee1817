// What is configured, and which engines were found: for operators, without secrets.

import { html } from "./html.js";
import { isObject } from "./tables.js";
import { t } from "./words.js";

const SIGNS = { ok: "●", info: "○", warning: "▲", problem: "✕" };

export function drawEngines(engines) {
  return html`<h2>${t("system.engines")}</h2><table class="list"><thead><tr><th scope="col">${t("col.state")}</th><th scope="col">${t("col.name")}</th><th scope="col">${t("system.found")}</th></tr></thead>
    <tbody>${engines.map((one) => html`<tr><td><span class="verdict ${`is-${one.verdict}`}"><span aria-hidden="true">${SIGNS[one.verdict]}</span> ${t(`verdict.${one.verdict}`)}</span></td>
    <td class="cell-name">${t(`engine.${one.subject}`, {}, one.subject)}</td><td>${one.fact}${one.remedy && html`<br><span class="faint">${one.remedy}</span>`}</td></tr>`)}</tbody></table>`;
}

export function drawSettings(settings) {
  const groups = Object.entries(settings).map(([name, value]) => (isObject(value) ? [name, value] : [name, { [name]: value }]));
  return html`<h2 id="settings">${t("system.settings")}</h2><p class="faint">${t("system.settings_how")}</p><div class="groups">${groups.map(([name, group]) =>
    html`<details class="group"><summary><code>${name}</code></summary>${pairs(group)}</details>`)}</div>`;
}

function pairs(group) {
  return html`<table class="pairs"><tbody>${Object.entries(group).map(([name, value]) => html`<tr><th scope="row"><code>${name}</code></th><td>${written(value)}</td></tr>`)}</tbody></table>`;
}

function written(value) {
  if (value === null || value === "" || (Array.isArray(value) && !value.length) || (isObject(value) && !Object.keys(value).length)) return html`<span class="faint">–</span>`;
  if (Array.isArray(value)) return html`<code>${value.join(", ")}</code>`;
  return isObject(value) ? pairs(value) : html`<code>${String(value)}</code>`;
}
