// Small charts: stacked bars and lines, each with a legend, and a table for those who cannot see them.

import { html } from "./html.js";
import { number } from "./format.js";

const WIDTH = 320;
const HEIGHT = 72;

/** What all charts are given: `points` [{label, values: one for each name}], and a class for each name. */
function frame({ title, value, points, names, classes, told, totals }, body) {
  return html`<figure class="chart"><figcaption><span>${title}</span> <strong>${value}</strong></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" focusable="false">${body}${hits(points, names, told)}</svg>
    <p class="axis faint" aria-hidden="true"><span>${points[0]?.label}</span> <span>${points.at(-1)?.label}</span></p>
    ${totals && names.length ? html`<ul class="legend" aria-hidden="true">${names.map((name, k) => html`<li><span class="swatch ${classes[k]}"></span>${name} <span class="faint">${told(totals[k])}</span></li>`)}</ul>` : ""}
    ${hidden(title, points, names, told)}</figure>`;
}

const said = (value, told) => (value === null || value === undefined ? "–" : told(value));

/** Over each point something that tells it to the pointer. */
function hits(points, names, told) {
  const width = WIDTH / Math.max(points.length, 1);
  return points.map((point, i) => {
    const lines = names.map((name, k) => [name, point.values[k]]).filter(([, value]) => value).map(([name, value]) => `${name} ${told(value)}`);
    return html`<rect class="hit" x="${(i * width).toFixed(1)}" y="0" width="${width.toFixed(1)}" height="${HEIGHT}" data-tip="${[point.label, ...(lines.length ? lines : ["–"])].join("\n")}"/>`;
  });
}

function hidden(title, points, names, told) {
  return html`<table class="unseen"><caption>${title}</caption><thead><tr><td></td>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${points.map((point) => html`<tr><th scope="row">${point.label}</th>${point.values.map((value) => html`<td>${said(value, told)}</td>`)}</tr>`)}</tbody></table>`;
}

export function bars({ points, names, classes, told = number, ...rest }) {
  const top = Math.max(1, ...points.map((point) => point.values.reduce((a, b) => a + b, 0)));
  const width = WIDTH / Math.max(points.length, 1);
  const totals = names.map((_, k) => points.reduce((sum, point) => sum + point.values[k], 0));
  const drawn = points.map((point, i) => {
    let y = HEIGHT;
    return point.values.map((amount, k) => {
      const height = (amount / top) * (HEIGHT - 4);
      y -= height;
      return amount ? html`<rect class="${classes[k]}" x="${(i * width + 0.5).toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(width - 1, 0.5).toFixed(1)}" height="${height.toFixed(1)}"/>` : "";
    });
  });
  return frame({ points, names, classes, told, totals, ...rest }, html`${drawn}`);
}

/** A value that is null leaves a gap; `totals` stand in the legend. */
export function lines({ points, names, classes, told = number, ...rest }) {
  const top = Math.max(1e-9, ...points.flatMap((point) => point.values.map((value) => value ?? 0)));
  const width = WIDTH / Math.max(points.length, 1);
  const y = (value) => (HEIGHT - 2 - (value / top) * (HEIGHT - 6)).toFixed(1);
  const path = (k) => points.map((point, i) => {
    const value = point.values[k];
    if (value === null || value === undefined) return "";
    const x = (i + 0.5) * width;
    // One alone would be a line without length.
    if ((points[i - 1]?.values[k] ?? null) === null) return `M${(x - width / 4).toFixed(1)} ${y(value)}H${x.toFixed(1)}`;
    return `L${x.toFixed(1)} ${y(value)}`;
  }).join("");
  return frame({ points, names, classes, told, ...rest }, html`${names.map((_, k) => html`<path class="line ${classes[k]}" d="${path(k)}"/>`)}`);
}

/** Shows a tooltip for the chart point under the pointer. It lives outside the view: charts are redrawn under it. */
export function showTooltips(root, signal) {
  const tooltip = document.createElement("div");
  tooltip.className = "tip";
  tooltip.hidden = true;
  tooltip.setAttribute("aria-hidden", "true");
  document.body.append(tooltip);
  signal.addEventListener("abort", () => tooltip.remove());
  root.addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tip]")?.dataset.tip;
    tooltip.hidden = !text;
    if (!text) return;
    tooltip.textContent = text;
    const maxLeft = document.documentElement.clientWidth - tooltip.offsetWidth - 8;
    tooltip.style.left = `${Math.max(8, Math.min(event.clientX + 12, maxLeft))}px`;
    tooltip.style.top = `${event.clientY + 16}px`;
  });
  root.addEventListener("pointerleave", () => (tooltip.hidden = true));
}

/** How a batch is made up, in one bar. */
export function parts(counts, classes, label) {
  const total = Math.max(1, counts.reduce((a, b) => a + b, 0));
  let x = 0;
  const drawn = counts.map((count, i) => {
    const width = (count / total) * 100;
    const part = count ? html`<rect class="${classes[i]}" x="${x.toFixed(2)}" y="0" width="${width.toFixed(2)}" height="8"/>` : "";
    x += width;
    return part;
  });
  return html`<svg class="parts" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="${label}">${drawn}</svg>`;
}
