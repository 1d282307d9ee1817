// What the service did lately, by job type, as charts.

import { bars, lines } from "./charts.js";
import { duration, number } from "./format.js";
import { flag, html } from "./html.js";
import { language, t } from "./words.js";

export const SPANS = [60, 360, 1440, 10080];
const DAY = 1440;
const SHOWN = 5;

const sum = (series, read) => series.reduce((total, point) => total + read(point), 0);

/** The names with most in them, in their own order; what is left is told together. */
function chosen(series, names, read) {
  const amount = (name) => sum(series, (point) => read(point, name));
  const most = [...names].sort((a, b) => amount(b) - amount(a)).slice(0, SHOWN).sort();
  return { most, others: names.filter((name) => !most.includes(name)) };
}

function stacked(series, label, names, read, shade) {
  const { most, others } = chosen(series, names, read);
  const points = series.map((point) => ({
    label: label(point),
    values: [...most.map((name) => read(point, name)), ...(others.length ? [others.reduce((total, name) => total + read(point, name), 0)] : [])],
  }));
  const all = [...most, ...(others.length ? [t("chart.other")] : [])];
  return { points, names: all, classes: all.map((name, i) => (i < most.length ? `${shade}-${i}` : "shade-rest")), most };
}

/** On the clock; over more than a day with the day. */
function labels(minutes) {
  const form = minutes > DAY
    ? { weekday: "short", hour: "2-digit", minute: "2-digit" }
    : { hour: "2-digit", minute: "2-digit" };
  const written = new Intl.DateTimeFormat(language(), form);
  return (point) => written.format(new Date(point.from));
}

function waits(series, label, types, title) {
  const values = (point) => [point.wait_p95_s, ...types.map((name) => point.types[name]?.wait_p95_s ?? null)];
  const points = series.map((point) => ({ label: label(point), values: values(point) }));
  const highest = (k) => points.reduce((top, point) => Math.max(top, point.values[k] ?? -1), -1);
  const totals = [0, ...types.map((_, i) => i + 1)].map(highest);
  return lines({
    title,
    value: totals[0] < 0 ? "–" : `≈ ${duration(totals[0])}`,
    points,
    names: [t("chart.all"), ...types],
    classes: ["type-all", ...types.map((_, i) => `type-${i}`)],
    told: (seconds) => (seconds < 0 ? "–" : duration(seconds)),
    totals: totals[0] < 0 ? null : totals,
  });
}

export function charts({ series }, minutes) {
  const label = labels(minutes);
  const types = [...new Set(series.flatMap((point) => Object.keys(point.types)))];
  const codes = [...new Set(series.flatMap((point) => Object.keys(point.failures)))];
  const done = stacked(series, label, types, (point, name) => point.types[name]?.completed ?? 0, "type");
  const failed = stacked(series, label, codes, (point, name) => point.failures[name] ?? 0, "shade");
  return html`<section class="charts" aria-label="${t("overview.charts")}">
    ${bars({ title: t("chart.done"), value: number(sum(series, (p) => p.completed)), ...done })}
    ${waits(series, label, done.most, t("chart.wait"))}
    ${bars({ title: t("chart.failed"), value: number(sum(series, (p) => p.failed)), ...failed })}
    <p class="span"><label for="span">${t("overview.span")}</label> <select id="span">${SPANS.map((span) => html`<option value="${span}" ${flag("selected", span === minutes)}>${t(`span.${span}`)}</option>`)}</select></p></section>`;
}
