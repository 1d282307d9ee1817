// Small charts: stacked bars and lines, each with a table for those who cannot see them.

import { html } from "./html.js";
import { number } from "./format.js";

const WIDTH = 320;
const HEIGHT = 72;

function frame(title, value, body, table) {
  return html`<figure class="chart"><figcaption><span>${title}</span> <strong>${value}</strong></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" focusable="false">${body}</svg>${table}</figure>`;
}

function hidden(title, points, names, told) {
  return html`<table class="unseen"><caption>${title}</caption><thead><tr><td></td>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${points.map((point) => html`<tr><th scope="row">${point.label}</th>${point.values.map((value) => html`<td>${told(value)}</td>`)}</tr>`)}</tbody></table>`;
}

/** `points`: [{label, values: [one for each name]}]; each name has a class. */
export function bars({ title, value, points, names, classes, told = number }) {
  const top = Math.max(1, ...points.map((point) => point.values.reduce((a, b) => a + b, 0)));
  const width = WIDTH / Math.max(points.length, 1);
  const drawn = points.map((point, i) => {
    let y = HEIGHT;
    const parts = point.values.map((amount, k) => {
      const height = (amount / top) * (HEIGHT - 4);
      y -= height;
      return amount ? html`<rect class="${classes[k]}" x="${(i * width + 0.5).toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(width - 1, 0.5).toFixed(1)}" height="${height.toFixed(1)}"/>` : "";
    });
    const said = names.map((name, k) => `${name} ${told(point.values[k])}`).join(", ");
    return html`<g>${parts}<rect class="hit" x="${(i * width).toFixed(1)}" y="0" width="${width.toFixed(1)}" height="${HEIGHT}"><title>${point.label}: ${said}</title></rect></g>`;
  });
  return frame(title, value, html`${drawn}`, hidden(title, points, names, told));
}

export function line({ title, value, points, name, told = number }) {
  const top = Math.max(1e-9, ...points.map((point) => point.values[0] ?? 0));
  const width = WIDTH / Math.max(points.length, 1);
  const at = (point, i) => [(i + 0.5) * width, HEIGHT - 2 - ((point.values[0] ?? 0) / top) * (HEIGHT - 6)];
  const path = points.map((point, i) => `${i ? "L" : "M"}${at(point, i).map((n) => n.toFixed(1)).join(" ")}`).join("");
  const hits = points.map((point, i) => html`<rect class="hit" x="${(i * width).toFixed(1)}" y="0" width="${width.toFixed(1)}" height="${HEIGHT}"><title>${point.label}: ${told(point.values[0] ?? 0)}</title></rect>`);
  return frame(title, value, html`<path class="line" d="${path}"/>${hits}`, hidden(title, points, [name], told));
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
