// Formatting of numbers, times, sizes and structured data.

import { html, safeLink } from "./html.js";
import { language } from "./i18n.js";

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const MAX_INLINE_LIST = 100;
const MAX_DEPTH = 6;

export const number = (value) => new Intl.NumberFormat(language()).format(value);

/** 0:38, 12:05, 1:02:05. */
export function clock(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const pad = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
}

export function duration(seconds) {
  if (seconds < 1) return `${number(Math.round(seconds * 1000))} ms`;
  return seconds < 60 ? `${number(Math.round(seconds * 10) / 10)} s` : clock(seconds);
}

export const secondsBetween = (from, to) => Math.max(0, (new Date(to) - new Date(from)) / 1000);

export function size(bytes) {
  const exponent = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  const value = bytes / 1024 ** exponent;
  return `${number(value < 10 && exponent ? Math.round(value * 10) / 10 : Math.round(value))} ${["B", "kB", "MB", "GB", "TB"][exponent]}`;
}

export function dateTime(iso) {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(iso));
}

function relativeTime(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? UNITS.at(-1);
  const amount = unit === "second" && Math.abs(seconds) < 5 ? 0 : Math.trunc(seconds / length);
  return new Intl.RelativeTimeFormat(language(), { numeric: "auto", style: "short" }).format(amount, unit);
}

/** A relative time with the exact one as its tooltip. */
export const ago = (iso) =>
  iso ? html`<time datetime="${iso}" title="${dateTime(iso)}" data-relative>${relativeTime(iso)}</time>` : "–";

/** Updates all relative times on the page; called every few seconds. */
export function refreshRelativeTimes() {
  for (const node of document.querySelectorAll("time[data-relative]")) {
    const text = relativeTime(node.dateTime);
    if (node.textContent !== text) node.textContent = text;
  }
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Structured data as (nested) tables. */
export function dataTable(value, depth = 0) {
  if (depth > MAX_DEPTH) return html`<pre>${JSON.stringify(value, null, 2)}</pre>`;
  if (Array.isArray(value)) {
    if (value.length && value.every(isObject)) return rowsTable(value, depth);
    if (value.length && fitsInline(value)) return value.map(String).join(", ");
    return value.length ? html`<ul>${value.map((item) => html`<li>${dataTable(item, depth + 1)}</li>`)}</ul>` : "–";
  }
  if (!isObject(value)) return scalar(value);
  return html`<table class="pairs"><tbody>${Object.entries(value).map(([name, item]) => html`<tr>
    <th scope="row">${name}</th><td>${dataTable(item, depth + 1)}</td></tr>`)}</tbody></table>`;
}

function rowsTable(rows, depth) {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return html`<div class="scroll"><table class="list"><thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>${rows.map((row) =>
    html`<tr>${columns.map((name) => html`<td data-label="${name}">${dataTable(row[name], depth + 1)}</td>`)}</tr>`)}</tbody></table></div>`;
}

const fitsInline = (list) =>
  list.every((item) => item !== null && typeof item !== "object" && !safeLink(item)) && list.join(", ").length <= MAX_INLINE_LIST;

function scalar(value) {
  if (value === null || value === undefined || value === "") return "–";
  const link = safeLink(value);
  return link ? html`<a href="${link}" rel="noreferrer noopener" target="_blank">${link}</a>` : String(value);
}
