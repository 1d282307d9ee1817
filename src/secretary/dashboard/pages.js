// The pages of a document: pictures beside their text, also while the job still runs.

import { get } from "./api.js";
import { number } from "./format.js";
import { element, html, render } from "./html.js";
import { rendered } from "./markdown.js";
import { showPictures } from "./pictures.js";
import { tableOf } from "./tables.js";
import { t } from "./words.js";

const FORM = "secretary.page-text";
const LOOK_AGAIN = 1500;
/** Up to so many pages are drawn at once, so that the browser finds words in all of them. */
const AT_ONCE = 60;
const TEXT = /^page_0*(\d+)\.txt$/;
const PICTURE = /(?:^|\/)(?:image|preview|page)_0*(\d+)\.(?:jpe?g|png|webp)$/;

/** The pictures of pages by their number: `image_003.jpg`, `preview_003.jpg`. */
export function picturesOf(results) {
  const found = new Map();
  for (const address of results.assets ?? []) {
    const page = PICTURE.exec(address)?.[1];
    if (page && !found.has(Number(page))) found.set(Number(page), address);
  }
  return found;
}

/** Where a text file is given as JSON. */
export const textAddress = (address) => address.replace(/^\/api\/files\/(?!text\/)/, "/api/files/text/");

/** The pages of a job that has ended; their text as Markdown, plain, or what is known about it. */
export async function drawPages(place, job, left) {
  const { results } = job;
  const pictures = picturesOf(results);
  const pages = results.metadata.text_contents;
  const forms = results.page_markdown_file ? ["markdown", "plain", "facts"] : ["plain", "facts"];
  const known = sessionStorage.getItem(FORM);
  const book = { job, left, pages, form: forms.includes(known) ? known : forms[0], markdown: null };
  render(place, html`<div class="switch small" role="group" aria-label="${t("pages.form")}">${forms.map((name) =>
    html`<button type="button" class="quiet" data-form="${name}" aria-pressed="${String(name === book.form)}">${t(`pages.${name}`)}</button>`)}</div>
    <div class="sheets">${pages.map((one) => sheet(one.page, pictures.get(one.page), [one.method, one.reason, one.ocr_confidence && `${Math.round(one.ocr_confidence)} %`]))}</div>`);
  showPictures(place, left);
  for (const button of place.querySelectorAll("[data-form]")) {
    button.addEventListener("click", () => {
      sessionStorage.setItem(FORM, (book.form = button.dataset.form));
      for (const other of place.querySelectorAll("[data-form]")) other.ariaPressed = String(other === button);
      fillAll(place, book);
    });
  }
  await fillAll(place, book);
}

async function fillAll(place, book) {
  if (book.form === "markdown" && !book.markdown) {
    const told = await get(textAddress(book.job.results.page_markdown_file), { signal: book.left }).catch(() => null);
    book.markdown = new Map((told ? JSON.parse(told.content) : []).map((one) => [one.page, one.markdown]));
  }
  const sheets = [...place.querySelectorAll(".sheet")];
  const fillOne = (one) => fill(one.querySelector(".words"), book.pages[sheets.indexOf(one)], book);
  sheets.slice(0, AT_ONCE).forEach(fillOne);
  whenNear(sheets.slice(AT_ONCE), book.left, fillOne);
}

async function fill(place, page, book) {
  if (book.form === "facts") {
    const { content, ...facts } = page;
    return render(place, tableOf({ ...facts, characters: number((content ?? "").length) }));
  }
  if (book.form === "markdown" && book.markdown.has(page.page)) {
    place.replaceChildren(rendered(book.markdown.get(page.page), book.job.job_id, book.job.results.markdown_file));
    return showPictures(place, book.left);
  }
  if (typeof page.content === "string") return render(place, html`<pre class="plain">${page.content}</pre>`);
  const address = (book.job.results.page_texts ?? []).find((one) => TEXT.exec(one.split("/").pop())?.[1] === String(page.page));
  return address ? fetchText(place, address, book.left) : undefined;
}

async function fetchText(place, address, left) {
  const told = await get(textAddress(address), { signal: left }).catch(() => null);
  if (told) render(place, html`<pre class="plain">${told.content}</pre>`);
}

function sheet(page, picture, facts = []) {
  return html`<section class="sheet ${picture ? "" : "bare"}" data-page="${page}" aria-label="${t("result.page", { n: page })}">
    <h2>${t("result.page", { n: page })} <span class="faint">${facts.filter(Boolean).join(" · ")}</span></h2>
    ${picture && html`<img data-file="${picture}" alt="${t("result.picture", { n: page })}">`}<div class="words"></div></section>`;
}

function whenNear(sections, left, act) {
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      act(target);
    }
  }, { rootMargin: "600px" });
  for (const one of sections) observer.observe(one);
  left.addEventListener("abort", () => observer.disconnect());
}

/** Pages as they come, while the job runs. */
export class PagesSoFar {
  constructor(place, job, left) {
    Object.assign(this, { place, left, id: job.job_id });
    this.known = new Map();
    this.timer = null;
    render(place, html`<p class="card calm partial" role="status">${t("pages.none_yet")}</p><div class="sheets"></div>`);
    left.addEventListener("abort", () => clearTimeout(this.timer));
    this.look();
  }

  /** Not more often than it is worth: a long list takes its time. */
  look() {
    if (this.timer !== null || this.stopped) return;
    const began = performance.now();
    this.timer = setTimeout(async () => {
      try {
        const told = await get(`/api/jobs/${encodeURIComponent(this.id)}/files`, { signal: this.left });
        if (!this.stopped) this.take(told.files);
      } catch {
        // The stream says what is wrong, and the next look tells the rest.
      }
      const rest = Math.max(LOOK_AGAIN, 10 * (performance.now() - began));
      this.timer = setTimeout(() => (this.timer = null), rest);
    }, 0);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  take(files) {
    for (const { name, url } of files) {
      const text = TEXT.exec(name);
      const picture = PICTURE.exec(name);
      if (!text && !picture) continue;
      const page = Number((text ?? picture)[1]);
      const one = this.known.get(page) ?? this.insert(page);
      if (text) one.text ??= url;
      else one.picture ??= this.addPicture(one.section, page, url);
    }
    const read = [...this.known.values()].filter((one) => one.text).length;
    if (read) this.place.querySelector(".partial").textContent = t("pages.so_far", { n: read, count: number(read) });
  }

  insert(page) {
    const section = element(sheet(page));
    const next = [...this.place.querySelectorAll(".sheet")].find((one) => Number(one.dataset.page) > page);
    this.place.querySelector(".sheets").insertBefore(section, next ?? null);
    const one = { section };
    this.known.set(page, one);
    whenNear([section], this.left, () => this.words(one));
    return one;
  }

  /** Its text may come after it has come near. */
  async words(one) {
    for (; !one.text && !this.stopped && !this.left.aborted;) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN));
    if (one.text) await fetchText(one.section.querySelector(".words"), one.text, this.left);
  }

  addPicture(section, page, url) {
    section.classList.remove("bare");
    section.querySelector("h2").after(element(html`<img data-file="${url}" alt="${t("result.picture", { n: page })}">`));
    showPictures(section, this.left);
    return url;
  }
}
