// What a job made, to look at.

import { get, save } from "./api.js";
import { inWords } from "./failure.js";
import { number, size } from "./format.js";
import { flag, html, render, safeLink } from "./html.js";
import { rendered } from "./markdown.js";
import { complain, doing } from "./notices.js";
import { drawPages, picturesOf, textAddress } from "./pages.js";
import { showPictures } from "./pictures.js";
import { drawRecording } from "./recording.js";
import { tableOf } from "./tables.js";
import { t } from "./words.js";

const LONG = 400000;
const MODE = "secretary.result";
/** Of these the document is what was asked for, and the files are what came with it. */
const WITH_FILES = new Set(["session", "transformer"]);

export function drawResult(panel, job, left) {
  const modes = modesOf(job);
  const files = filesOf(job.results);
  render(panel, html`${missing(job.results)}<div class="bar"><div class="switch" role="group" aria-label="${t("result.view")}">${Object.keys(modes).map((name) =>
    html`<button type="button" class="quiet" data-mode="${name}" aria-pressed="false">${t(`mode.${name}`)}</button>`)}</div></div>
    <div id="shown"></div>
    ${files.length ? html`<details class="files" ${flag("open", WITH_FILES.has(job.job_type))}><summary>${t("result.files", { n: files.length })}</summary><ul>${files.map(({ path, name }) =>
      html`<li><button type="button" class="link" data-save="${path}" data-name="${name}">${name}</button> <span class="faint"></span></li>`)}</ul></details>` : ""}`);
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
      // Who looked something up in the JSON wants to see the next result as it is meant.
      if (button.dataset.mode !== "raw") sessionStorage.setItem(MODE, button.dataset.mode);
      choose(button.dataset.mode);
    });
  }
  panel.addEventListener("click", (event) => {
    const target = event.target.closest("[data-save]");
    if (!target) return;
    event.preventDefault();
    const { save: path, name } = target.dataset;
    doing(target, () => save(path, name ?? readable(path.split("/").pop())));
  });
  const list = panel.querySelector(".files");
  const measure = () => sizes(list, job, left);
  if (list?.open) measure();
  list?.addEventListener("toggle", measure, { once: true });
  const wanted = sessionStorage.getItem(MODE);
  choose(wanted in modes ? wanted : Object.keys(modes)[0]);
}

/** What a job could not have, and did without. */
function missing(results) {
  const list = results.missing ?? [];
  if (!list.length) return "";
  return html`<section class="card missing"><h2>${t("result.missing")}</h2><ul>${list.map(({ part, url, error }) => html`<li><strong>${t(`part.${part}`, {}, part)}</strong>:
    ${inWords(error.code)}. ${error.message}${safeLink(url) && html` <a href="${safeLink(url)}" rel="noreferrer noopener" target="_blank">${url}</a>`}</li>`)}</ul></section>`;
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
  if (hasFields(results.structured_data)) modes.data = (place) => render(place, html`<div class="card data">${tableOf(results.structured_data)}</div>`);
  const plain = results.extracted_text ?? results.transcription?.text ?? results.text;
  if (plain) modes.plain = (place) => render(place, text(plain));
  modes.raw = (place) => render(place, text(JSON.stringify(results, null, 2)));
  return modes;
}

const hasFields = (value) => value !== null && value !== undefined && (typeof value !== "object" || Object.keys(value).length > 0);

function text(content) {
  const cut = content.length > LONG;
  return html`${cut && html`<p class="tag">${t("result.cut", { count: number(LONG) })}</p>`}<pre class="plain" tabindex="0">${content.slice(0, LONG)}</pre>`;
}

async function drawDocument(place, job, left) {
  const { markdown_content: content, markdown_file: file, metadata } = job.results;
  try {
    const whole = content ?? (await get(textAddress(file), { signal: left })).content;
    if (whole.length > LONG) render(place, html`<p class="tag">${t("result.cut", { count: number(LONG) })}</p>`);
    place.append(rendered(whole.slice(0, LONG), job.job_id, file, metadata?.front_matter));
    showPictures(place, left);
  } catch (error) {
    complain(error);
  }
}

function readable(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Every file that the results name, once; the recording under the name that its owner gave it. */
function filesOf(results) {
  const found = new Map();
  const walk = (value) => {
    if (typeof value === "string") {
      if (/^\/api\/(files|pdf\/text-content|jobs)\/\S+$/.test(value)) add(value);
    } else if (value !== null && typeof value === "object") Object.values(value).forEach(walk);
  };
  const add = (address) => {
    const path = address.replace(/^\/api\/(files\/text|pdf\/text-content)\//, "/api/files/");
    const given = address === results.recording?.url ? results.metadata?.file_name : null;
    const name = path.endsWith("/download-archive") ? results.archive_filename ?? "archive.zip" : given ?? readable(path.split("/").pop());
    if (!found.has(path)) found.set(path, { path, name });
  };
  walk(results);
  return [...found.values()];
}

async function sizes(list, job, left) {
  const told = await get(`/api/jobs/${encodeURIComponent(job.job_id)}/files`, { signal: left }).catch(() => null);
  const known = new Map((told?.files ?? []).map((file) => [file.url, file.size]));
  for (const button of list.querySelectorAll("[data-save]")) {
    if (known.has(button.dataset.save)) button.nextElementSibling.textContent = size(known.get(button.dataset.save));
  }
}
