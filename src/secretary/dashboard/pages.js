// The pages of a document: images beside their text, also while the job is still running.

import { get } from "./api.js";
import { lazyLoadImages, textUrl, whenNearViewport } from "./files.js";
import { dataTable, number } from "./format.js";
import { element, html, render } from "./html.js";
import { t } from "./i18n.js";
import { renderMarkdown } from "./markdown.js";

const FORMAT_STORAGE = "secretary.page-text";
const REFRESH_DELAY = 1500;
/** This many pages are filled at once, so that the browser's search finds text in all of them. */
const MAX_EAGER_PAGES = 60;
const LOAD_MARGIN = "600px";
const TEXT_FILE = /^page_0*(\d+)\.txt$/;
const IMAGE_FILE = /(?:^|\/)(?:image|preview|page)_0*(\d+)\.(?:jpe?g|png|webp)$/;

/** The images of pages (`image_003.jpg`, `preview_003.jpg`) by page number. */
export function pageImages(results) {
  const images = new Map();
  for (const path of results.assets ?? []) {
    const page = IMAGE_FILE.exec(path)?.[1];
    if (page && !images.has(Number(page))) images.set(Number(page), path);
  }
  return images;
}

/** The pages of a finished job, with their text as Markdown, plain text, or extraction details. */
export async function drawPages(container, job, signal) {
  const { results } = job;
  const images = pageImages(results);
  const pages = results.metadata.text_contents;
  const formats = results.page_markdown_file ? ["markdown", "plain", "details"] : ["plain", "details"];
  const stored = sessionStorage.getItem(FORMAT_STORAGE);
  const view = { job, signal, pages, format: formats.includes(stored) ? stored : formats[0], markdown: null };
  render(container, html`<div class="switch small" role="group" aria-label="${t("pages.format")}">${formats.map((name) =>
    html`<button type="button" class="secondary" data-format="${name}" aria-pressed="${String(name === view.format)}">${t(`pages.${name}`)}</button>`)}</div>
    <div class="page-list">${pages.map((page) => pageSection(page.page, images.get(page.page), [page.method, page.reason, page.ocr_confidence && `${Math.round(page.ocr_confidence)} %`]))}</div>`);
  lazyLoadImages(container, signal);
  for (const button of container.querySelectorAll("[data-format]")) {
    button.addEventListener("click", () => {
      sessionStorage.setItem(FORMAT_STORAGE, (view.format = button.dataset.format));
      for (const other of container.querySelectorAll("[data-format]")) other.ariaPressed = String(other === button);
      fillPages(container, view);
    });
  }
  await fillPages(container, view);
}

async function fillPages(container, view) {
  if (view.format === "markdown" && !view.markdown) {
    const file = await get(textUrl(view.job.results.page_markdown_file), { signal: view.signal }).catch(() => null);
    view.markdown = new Map((file ? JSON.parse(file.content) : []).map(({ page, markdown }) => [page, markdown]));
  }
  const sections = [...container.querySelectorAll(".page")];
  const fill = (section) => fillPage(section.querySelector(".page-text"), view.pages[sections.indexOf(section)], view);
  sections.slice(0, MAX_EAGER_PAGES).forEach(fill);
  whenNearViewport(sections.slice(MAX_EAGER_PAGES), view.signal, LOAD_MARGIN, fill);
}

async function fillPage(container, page, view) {
  if (view.format === "details") {
    const { content, ...details } = page;
    return render(container, dataTable({ ...details, characters: number((content ?? "").length) }));
  }
  if (view.format === "markdown" && view.markdown.has(page.page)) {
    container.replaceChildren(renderMarkdown(view.markdown.get(page.page), view.job.job_id, view.job.results.markdown_file));
    return lazyLoadImages(container, view.signal);
  }
  if (typeof page.content === "string") return render(container, html`<pre class="plain">${page.content}</pre>`);
  const path = (view.job.results.page_texts ?? []).find((candidate) => TEXT_FILE.exec(candidate.split("/").pop())?.[1] === String(page.page));
  return path ? fetchText(container, path, view.signal) : undefined;
}

async function fetchText(container, path, signal) {
  const file = await get(textUrl(path), { signal }).catch(() => null);
  if (file) render(container, html`<pre class="plain">${file.content}</pre>`);
}

function pageSection(page, image, details = []) {
  return html`<section class="page ${image ? "" : "text-only"}" data-page="${page}" aria-label="${t("result.page", { n: page })}">
    <h2>${t("result.page", { n: page })} <span class="muted">${details.filter(Boolean).join(" · ")}</span></h2>
    ${image && pageImage(page, image)}<div class="page-text"></div></section>`;
}

const pageImage = (page, path) => html`<img data-file="${path}" alt="${t("result.page_image", { n: page })}">`;

/** The pages of a running job, as they are finished. */
export class LivePages {
  constructor(container, job, signal) {
    Object.assign(this, { container, signal, jobId: job.job_id });
    this.pages = new Map();
    this.timer = null;
    render(container, html`<p class="card info partial" role="status">${t("pages.waiting")}</p><div class="page-list"></div>`);
    signal.addEventListener("abort", () => clearTimeout(this.timer));
    this.refresh();
  }

  /** Lists the job's files, at most every `REFRESH_DELAY`; less often if listing them takes long. */
  refresh() {
    if (this.timer !== null || this.stopped) return;
    const startedAt = performance.now();
    this.timer = setTimeout(async () => {
      try {
        const { files } = await get(`/api/jobs/${encodeURIComponent(this.jobId)}/files`, { signal: this.signal });
        if (!this.stopped) this.addFiles(files);
      } catch {
        // The event stream reports connection problems, and the next refresh catches up.
      }
      const delay = Math.max(REFRESH_DELAY, 10 * (performance.now() - startedAt));
      this.timer = setTimeout(() => (this.timer = null), delay);
    }, 0);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  addFiles(files) {
    for (const { name, url } of files) {
      const text = TEXT_FILE.exec(name);
      const image = IMAGE_FILE.exec(name);
      if (!text && !image) continue;
      const pageNumber = Number((text ?? image)[1]);
      const page = this.pages.get(pageNumber) ?? this.insertPage(pageNumber);
      if (text) page.text ??= url;
      else page.image ??= this.addImage(page.section, pageNumber, url);
    }
    const count = [...this.pages.values()].filter((page) => page.text).length;
    if (count) this.container.querySelector(".partial").textContent = t("pages.so_far", { n: count, count: number(count) });
  }

  insertPage(pageNumber) {
    const section = element(pageSection(pageNumber));
    const next = [...this.container.querySelectorAll(".page")].find((other) => Number(other.dataset.page) > pageNumber);
    this.container.querySelector(".page-list").insertBefore(section, next ?? null);
    const page = { section };
    this.pages.set(pageNumber, page);
    whenNearViewport([section], this.signal, LOAD_MARGIN, () => this.fillText(page));
    return page;
  }

  /** Waits for the text: its file may be written after the page came into view. */
  async fillText(page) {
    while (!page.text && !this.stopped && !this.signal.aborted) await new Promise((resolve) => setTimeout(resolve, REFRESH_DELAY));
    if (page.text) await fetchText(page.section.querySelector(".page-text"), page.text, this.signal);
  }

  addImage(section, pageNumber, url) {
    section.classList.remove("text-only");
    section.querySelector("h2").after(element(pageImage(pageNumber, url)));
    lazyLoadImages(section, this.signal);
    return url;
  }
}
