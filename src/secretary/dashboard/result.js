// What a job made, to look at.

import { get, save } from "./api.js";
import { number } from "./format.js";
import { html, render } from "./html.js";
import { rendered } from "./markdown.js";
import { complain, doing } from "./notices.js";
import { showPictures } from "./pictures.js";
import { drawRecording } from "./recording.js";
import { tableOf } from "./tables.js";
import { t } from "./words.js";

const LONG = 400000;
const MODE = "secretary.result";

export function drawResult(panel, job, left) {
  const modes = modesOf(job);
  const files = filesOf(job.results);
  render(panel, html`<div class="bar"><div class="switch" role="group" aria-label="${t("result.view")}">${Object.keys(modes).map((name) =>
    html`<button type="button" class="quiet" data-mode="${name}" aria-pressed="false">${t(`mode.${name}`)}</button>`)}</div>
    ${files.length ? html`<details class="files"><summary>${t("result.files", { n: files.length })}</summary><ul>${files.map(({ path, name }) =>
      html`<li><button type="button" class="link" data-save="${path}">${name}</button></li>`)}</ul></details>` : ""}</div>
    <div id="shown"></div>`);
  const shown = panel.querySelector("#shown");
  const choose = (name) => {
    for (const button of panel.querySelectorAll("[data-mode]")) button.ariaPressed = String(button.dataset.mode === name);
    const place = document.createElement("div"); // its own: what comes late does not show up elsewhere
    shown.replaceChildren(place);
    modes[name](place, job, left);
    showPictures(place, left);
  };
  for (const button of panel.querySelectorAll("[data-mode]")) {
    button.addEventListener("click", () => {
      sessionStorage.setItem(MODE, button.dataset.mode);
      choose(button.dataset.mode);
    });
  }
  for (const button of panel.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => doing(button, () => save(button.dataset.save, button.textContent)));
  }
  const wanted = sessionStorage.getItem(MODE);
  choose(wanted in modes ? wanted : Object.keys(modes)[0]);
}

/** The ways in which this result can be looked at, the best first. */
function modesOf(job) {
  const { results } = job;
  const modes = {};
  const pages = results.metadata?.text_contents ?? [];
  if (results.transcription?.segments?.length || results.frames?.length) modes.recording = drawRecording;
  if (pages.length && picturesOf(results).size) modes.pages = drawPages;
  if (results.markdown_content || results.markdown_file) modes.document = drawDocument;
  if (pages.length && !modes.pages) modes.pages = drawPages;
  if (results.structured_data) modes.data = (place) => render(place, tableOf(results.structured_data));
  const plain = results.extracted_text ?? results.transcription?.text ?? results.text;
  if (plain) modes.plain = (place) => render(place, text(plain));
  modes.raw = (place) => render(place, text(JSON.stringify(results, null, 2)));
  return modes;
}

function text(content) {
  const cut = content.length > LONG;
  return html`${cut && html`<p class="tag">${t("result.cut", { count: number(LONG) })}</p>`}<pre class="plain" tabindex="0">${content.slice(0, LONG)}</pre>`;
}

async function drawDocument(place, job, left) {
  const { markdown_content: content, markdown_file: file } = job.results;
  try {
    const whole = content ?? (await get(file.replace("/api/files/", "/api/files/text/"), { signal: left })).content;
    if (whole.length > LONG) render(place, html`<p class="tag">${t("result.cut", { count: number(LONG) })}</p>`);
    place.append(rendered(whole.slice(0, LONG), job.job_id));
    showPictures(place, left);
  } catch (error) {
    complain(error);
  }
}

/** The pictures of pages by their number: `image_003.jpg`, `preview_003.jpg`. */
function picturesOf(results) {
  const found = new Map();
  for (const address of results.assets ?? []) {
    const page = /(?:image|preview|page)_0*(\d+)\.\w+$/.exec(address)?.[1];
    if (page && !found.has(Number(page))) found.set(Number(page), address);
  }
  return found;
}

function drawPages(place, job) {
  const pictures = picturesOf(job.results);
  const pages = job.results.metadata.text_contents;
  render(place, html`<div class="sheets">${pages.map(({ page, content, method, reason, ocr_confidence: sure }) => html`
    <section class="sheet ${pictures.has(page) ? "" : "bare"}" aria-label="${t("result.page", { n: page })}">
      <h2>${t("result.page", { n: page })} <span class="faint">${[method, reason, sure && `${Math.round(sure)} %`].filter(Boolean).join(" · ")}</span></h2>
      ${pictures.has(page) && html`<img data-file="${pictures.get(page)}" alt="${t("result.picture", { n: page })}">`}
      <pre class="plain">${content ?? ""}</pre></section>`)}</div>`);
}

function readable(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Every file that the results name, once. */
function filesOf(results) {
  const found = new Map();
  const walk = (value) => {
    if (typeof value === "string") {
      if (/^\/api\/(files|pdf\/text-content|jobs)\/\S+$/.test(value)) add(value);
    } else if (value !== null && typeof value === "object") Object.values(value).forEach(walk);
  };
  const add = (address) => {
    const path = address.replace(/^\/api\/(files\/text|pdf\/text-content)\//, "/api/files/");
    const name = path.endsWith("/download-archive") ? results.archive_filename ?? "archive.zip" : readable(path.split("/").pop());
    if (!found.has(path)) found.set(path, { path, name });
  };
  walk(results);
  return [...found.values()];
}
