// The result of a job in its different views, and its files.

import { get } from "./api.js";
import { baseName, download, lazyLoadImages, textUrl } from "./files.js";
import { dataTable, number, size } from "./format.js";
import { flag, html, render, safeLink } from "./html.js";
import { t } from "./i18n.js";
import { codeLabel } from "./job_failure.js";
import { renderMarkdown } from "./markdown.js";
import { drawMediaPlayer } from "./media_player.js";
import { notifyError, runAction } from "./notifications.js";
import { drawPages, pageImages } from "./pages.js";

const MAX_CHARACTERS = 400000;
const MODE_STORAGE = "secretary.result";
/** Job types whose files are part of the result and listed right away. */
const TYPES_WITH_FILES = new Set(["session", "transformer", "text2image"]);

export function drawResult(panel, job, signal) {
  const modes = modesOf(job);
  const files = filesOf(job.results);
  render(panel, html`${missingParts(job.results)}<div class="bar"><div class="switch" role="group" aria-label="${t("result.view")}">${Object.keys(modes).map((name) =>
    html`<button type="button" class="secondary" data-mode="${name}" aria-pressed="false">${t(`mode.${name}`)}</button>`)}</div></div>
    <div id="content"></div>
    ${files.length ? html`<details class="files" ${flag("open", TYPES_WITH_FILES.has(job.job_type))}><summary>${t("result.files", { n: files.length })}</summary><ul>${files.map(({ path, name }) =>
      html`<li><button type="button" class="link" data-download="${path}" data-name="${name}">${name}</button> <span class="muted"></span></li>`)}</ul></details>` : ""}`);
  const content = panel.querySelector("#content");
  const showMode = (name) => {
    for (const button of panel.querySelectorAll("[data-mode]")) button.ariaPressed = String(button.dataset.mode === name);
    const container = document.createElement("div"); // a new one, so that late responses of another mode do not end up here
    content.replaceChildren(container);
    modes[name](container, job, signal);
    lazyLoadImages(container, signal);
  };
  for (const button of panel.querySelectorAll("[data-mode]")) {
    button.addEventListener("click", () => {
      // JSON is for looking something up; the next result opens in the mode before it.
      if (button.dataset.mode !== "raw") sessionStorage.setItem(MODE_STORAGE, button.dataset.mode);
      showMode(button.dataset.mode);
    });
  }
  panel.addEventListener("click", (event) => {
    const target = event.target.closest("[data-download]");
    if (!target) return;
    event.preventDefault();
    const { download: path, name } = target.dataset;
    runAction(target, () => download(path, name ?? baseName(path)));
  });
  const fileList = panel.querySelector(".files");
  const loadSizes = () => showFileSizes(fileList, job, signal);
  if (fileList?.open) loadSizes();
  fileList?.addEventListener("toggle", loadSizes, { once: true });
  const lastMode = sessionStorage.getItem(MODE_STORAGE);
  showMode(lastMode in modes ? lastMode : Object.keys(modes)[0]);
}

/** Optional parts the job could not get. */
function missingParts(results) {
  const parts = results.missing ?? [];
  if (!parts.length) return "";
  return html`<section class="card missing"><h2>${t("result.missing")}</h2><ul>${parts.map(({ part, url, error }) => html`<li><strong>${t(`part.${part}`, {}, part)}</strong>:
    ${codeLabel(error.code)}. ${error.message}${safeLink(url) && html` <a href="${safeLink(url)}" rel="noreferrer noopener" target="_blank">${url}</a>`}</li>`)}</ul></section>`;
}

/** The views this result has, the most useful first. */
function modesOf(job) {
  const { results } = job;
  const modes = {};
  const pages = results.metadata?.text_contents ?? [];
  if (results.images?.length) modes.images = (container) => render(container, results.images.map(generatedImage));
  if (results.transcription?.segments?.length || results.frames?.length) modes.recording = drawMediaPlayer;
  if (pages.length && pageImages(results).size) modes.pages = drawPages;
  if (results.markdown_content || results.markdown_file) modes.document = drawDocument;
  if (pages.length && !modes.pages) modes.pages = drawPages;
  if (hasData(results.structured_data)) modes.data = (container) => render(container, html`<div class="card data">${dataTable(results.structured_data)}</div>`);
  const plain = results.extracted_text ?? results.transcription?.text ?? results.text;
  if (plain) modes.plain = (container) => render(container, plainText(plain));
  modes.raw = (container) => render(container, plainText(JSON.stringify(results, withoutVectors, 2)));
  return modes;
}

const generatedImage = ({ url, size: pixels, seed }) => html`<figure class="card"><img data-file="${url}" alt="${baseName(url)}"><figcaption class="muted">${[pixels, seed].filter((value) => value !== null).join(" · ")}</figcaption></figure>`;

/** The vectors of thousands of chunks would take minutes to display. */
const withoutVectors = (key, value) => (key === "embedding" && Array.isArray(value) ? `[${value.length}]` : value);

const hasData = (value) => value !== null && value !== undefined && (typeof value !== "object" || Object.keys(value).length > 0);

const truncationNote = (text) => (text.length > MAX_CHARACTERS ? html`<p class="tag">${t("result.truncated", { count: number(MAX_CHARACTERS) })}</p>` : "");

const plainText = (text) => html`${truncationNote(text)}<pre class="plain" tabindex="0">${text.slice(0, MAX_CHARACTERS)}</pre>`;

async function drawDocument(container, job, signal) {
  const { markdown_content: content, markdown_file: path, metadata } = job.results;
  try {
    const text = content ?? (await get(textUrl(path), { signal })).content;
    render(container, truncationNote(text));
    container.append(renderMarkdown(text.slice(0, MAX_CHARACTERS), job.job_id, path, metadata?.front_matter));
    lazyLoadImages(container, signal);
  } catch (error) {
    notifyError(error);
  }
}

/** Every file the results refer to, once; the recording under its original name. */
function filesOf(results) {
  const files = new Map();
  const collect = (value) => {
    if (typeof value === "string") {
      if (/^\/api\/(files|pdf\/text-content|jobs)\/\S+$/.test(value)) add(value);
    } else if (value !== null && typeof value === "object") Object.values(value).forEach(collect);
  };
  const add = (url) => {
    const path = url.replace(/^\/api\/(files\/text|pdf\/text-content)\//, "/api/files/");
    const originalName = url === results.recording?.url ? results.metadata?.file_name : null;
    const name = path.endsWith("/download-archive") ? results.archive_filename ?? "archive.zip" : originalName ?? baseName(path);
    if (!files.has(path)) files.set(path, { path, name });
  };
  collect(results);
  return [...files.values()];
}

async function showFileSizes(fileList, job, signal) {
  const body = await get(`/api/jobs/${encodeURIComponent(job.job_id)}/files`, { signal }).catch(() => null);
  const sizes = new Map((body?.files ?? []).map((file) => [file.url, file.size]));
  for (const button of fileList.querySelectorAll("[data-download]")) {
    if (sizes.has(button.dataset.download)) button.nextElementSibling.textContent = size(sizes.get(button.dataset.download));
  }
}
