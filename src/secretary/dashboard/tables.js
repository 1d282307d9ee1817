// Structured data as tables.

import { html, safeLink } from "./html.js";

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function plain(value) {
  if (value === null || value === undefined || value === "") return "–";
  const link = safeLink(value);
  return link ? html`<a href="${link}" rel="noreferrer noopener" target="_blank">${link}</a>` : String(value);
}

const SHORT = 100;
const isShort = (list) => list.every((one) => one !== null && typeof one !== "object" && !safeLink(one)) && list.join(", ").length <= SHORT;

export function tableOf(value, depth = 0) {
  if (depth > 6) return html`<pre>${JSON.stringify(value, null, 2)}</pre>`;
  if (Array.isArray(value)) {
    if (value.length && value.every(isObject)) return rows(value, depth);
    if (value.length && isShort(value)) return value.map(String).join(", ");
    return value.length ? html`<ul>${value.map((one) => html`<li>${tableOf(one, depth + 1)}</li>`)}</ul>` : "–";
  }
  if (!isObject(value)) return plain(value);
  return html`<table class="pairs"><tbody>${Object.entries(value).map(([name, one]) => html`<tr>
    <th scope="row">${name}</th><td>${tableOf(one, depth + 1)}</td></tr>`)}</tbody></table>`;
}

function rows(list, depth) {
  const names = [...new Set(list.flatMap(Object.keys))];
  return html`<div class="scroll"><table class="list"><thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>${list.map((one) =>
    html`<tr>${names.map((name) => html`<td data-label="${name}">${tableOf(one[name], depth + 1)}</td>`)}</tr>`)}</tbody></table></div>`;
}
