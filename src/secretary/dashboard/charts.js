// Small SVG charts (stacked bars, lines) with a legend, tooltips, and a table for screen readers.

import { number } from "./format.js";
import { html } from "./html.js";

const WIDTH = 320;
const HEIGHT = 72;

/** Stacked bars. `points` is [{label, values}] with one value per series; `names` and `classes` describe the series. */
export function barChart({ points, names, classes, format = number, ...rest }) {
  const max = Math.max(1, ...points.map((point) => point.values.reduce((a, b) => a + b, 0)));
  const width = WIDTH / Math.max(points.length, 1);
  const totals = names.map((_, k) => points.reduce((sum, point) => sum + point.values[k], 0));
  const bars = points.map((point, i) => {
    let y = HEIGHT;
    return point.values.map((amount, k) => {
      const height = (amount / max) * (HEIGHT - 4);
      y -= height;
      return amount ? html`<rect class="${classes[k]}" x="${(i * width + 0.5).toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(width - 1, 0.5).toFixed(1)}" height="${height.toFixed(1)}"/>` : "";
    });
  });
  return figure({ points, names, classes, format, totals, ...rest }, html`${bars}`);
}

/** Lines. Null values leave a gap; `totals` are shown in the legend. */
export function lineChart({ points, names, classes, format = number, ...rest }) {
  const max = Math.max(1e-9, ...points.flatMap((point) => point.values.map((value) => value ?? 0)));
  const width = WIDTH / Math.max(points.length, 1);
  const y = (value) => (HEIGHT - 2 - (value / max) * (HEIGHT - 6)).toFixed(1);
  const path = (k) => points.map((point, i) => {
    const value = point.values[k];
    if (value === null || value === undefined) return "";
    const x = (i + 0.5) * width;
    // A single point would be a line of length zero.
    if ((points[i - 1]?.values[k] ?? null) === null) return `M${(x - width / 4).toFixed(1)} ${y(value)}H${x.toFixed(1)}`;
    return `L${x.toFixed(1)} ${y(value)}`;
  }).join("");
  return figure({ points, names, classes, format, ...rest }, html`${names.map((_, k) => html`<path class="line ${classes[k]}" d="${path(k)}"/>`)}`);
}

function figure({ title, value, points, names, classes, format, totals }, body) {
  return html`<figure class="chart"><figcaption><span>${title}</span> <strong>${value}</strong></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" focusable="false">${body}${hitAreas(points, names, format)}</svg>
    <p class="axis muted" aria-hidden="true"><span>${points[0]?.label}</span> <span>${points.at(-1)?.label}</span></p>
    ${totals && names.length ? html`<ul class="legend" aria-hidden="true">${names.map((name, k) => html`<li><span class="swatch ${classes[k]}"></span>${name} <span class="muted">${format(totals[k])}</span></li>`)}</ul>` : ""}
    ${accessibleTable(title, points, names, format)}</figure>`;
}

/** A transparent area over each point that carries its tooltip. */
function hitAreas(points, names, format) {
  const width = WIDTH / Math.max(points.length, 1);
  return points.map((point, i) => {
    const lines = names.map((name, k) => [name, point.values[k]]).filter(([, value]) => value).map(([name, value]) => `${name} ${format(value)}`);
    return html`<rect class="hit" x="${(i * width).toFixed(1)}" y="0" width="${width.toFixed(1)}" height="${HEIGHT}" data-tooltip="${[point.label, ...(lines.length ? lines : ["–"])].join("\n")}"/>`;
  });
}

function accessibleTable(title, points, names, format) {
  const cell = (value) => (value === null || value === undefined ? "–" : format(value));
  return html`<table class="visually-hidden"><caption>${title}</caption><thead><tr><td></td>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${points.map((point) => html`<tr><th scope="row">${point.label}</th>${point.values.map((value) => html`<td>${cell(value)}</td>`)}</tr>`)}</tbody></table>`;
}

/** Shows a tooltip for the point under the pointer. It lives outside the view, so redrawing the charts does not hide it. */
export function enableTooltips(root, signal) {
  const tooltip = document.createElement("div");
  tooltip.className = "tooltip";
  tooltip.hidden = true;
  tooltip.setAttribute("aria-hidden", "true");
  document.body.append(tooltip);
  signal.addEventListener("abort", () => tooltip.remove());
  root.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tooltip]")?.dataset.tooltip;
    tooltip.hidden = !text;
    if (!text) return;
    tooltip.textContent = text;
    const maxLeft = document.documentElement.clientWidth - tooltip.offsetWidth - 8;
    tooltip.style.left = `${Math.max(8, Math.min(event.clientX + 12, maxLeft))}px`;
    tooltip.style.top = `${event.clientY + 16}px`;
  });
  root.addEventListener("pointerleave", () => (tooltip.hidden = true));
}

/** One horizontal bar, divided in proportion to the counts. */
export function shareBar(counts, classes, label) {
  const total = Math.max(1, counts.reduce((a, b) => a + b, 0));
  let x = 0;
  const segments = counts.map((count, i) => {
    const width = (count / total) * 100;
    const segment = count ? html`<rect class="${classes[i]}" x="${x.toFixed(2)}" y="0" width="${width.toFixed(2)}" height="8"/>` : "";
    x += width;
    return segment;
  });
  return html`<svg class="share-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="${label}">${segments}</svg>`;
}
