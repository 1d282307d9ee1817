// Renders untrusted Markdown safely, with its front matter as a table.

import DOMPurify from "./vendor/dompurify-3.4.17.js";
import { Marked } from "./vendor/marked-15.0.12.js";
import { dataTable } from "./format.js";
import { element, html } from "./html.js";
import { t } from "./i18n.js";

const marked = new Marked({ gfm: true, async: false });
const SANITIZER_OPTIONS = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "option", "audio", "video", "dialog", "template", "meta", "link", "base"],
  FORBID_ATTR: ["style", "class", "id", "name", "srcset", "action", "formaction", "ping", "target", "tabindex", "autofocus"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

/**
 * Returns an element with the document. Images are left as `data-file` for lazy loading. `path` is
 * the file the document comes from, which relative links refer to; `frontMatter` is parsed from the
 * text unless given.
 */
export function renderMarkdown(text, jobId, path = null, frontMatter = null) {
  const { header, body } = splitFrontMatter(text);
  const root = element(html`<article class="prose"></article>`);
  const table = frontMatterTable(header, frontMatter);
  if (table) root.append(element(table));
  const content = DOMPurify.sanitize(marked.parse(body), SANITIZER_OPTIONS);
  const directory = `/api/files/${jobId}/`;
  const base = path?.startsWith(directory) ? path : directory;
  for (const image of content.querySelectorAll("img")) rewriteImage(image, directory, base);
  for (const link of content.querySelectorAll("a[href]")) rewriteLink(link, directory, base);
  for (const wide of content.querySelectorAll("table")) {
    const frame = element(html`<div class="scroll" tabindex="0" role="region" aria-label="${t("result.table")}"></div>`);
    wide.replaceWith(frame);
    frame.append(wide);
  }
  root.append(content);
  return root;
}

const isExternal = (url) => /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(url);

/** The path of a file of the job; null if the URL leads anywhere else. */
function jobFile(url, directory, base) {
  if (url.startsWith("/api/")) return url;
  const relative = url.startsWith("/") ? directory + url.slice(1) : url;
  const { pathname } = new URL(relative, new URL(base, location.origin));
  return pathname.startsWith(directory) ? pathname : null;
}

/** External images become links: loading them would reveal to their host who reads the document. */
function rewriteImage(image, directory, base) {
  const source = image.getAttribute("src") ?? "";
  const alt = image.getAttribute("alt") || source;
  const file = source && !isExternal(source) ? jobFile(source, directory, base) : null;
  if (/^https?:/i.test(source)) {
    image.replaceWith(element(html`<a href="${source}" rel="noreferrer noopener" target="_blank">🖼 ${alt}</a>`));
  } else if (!file) {
    image.replaceWith(document.createTextNode(alt.slice(0, 200)));
  } else {
    image.dataset.file = file;
    image.removeAttribute("src");
    image.alt = image.alt || "";
  }
}

function rewriteLink(link, directory, base) {
  const url = link.getAttribute("href");
  if (url.startsWith("#")) return link.removeAttribute("href"); // fragments are our routes
  if (!isExternal(url)) {
    const file = jobFile(url, directory, base);
    if (!file) return link.removeAttribute("href");
    link.dataset.download = file; // may need the API key, which a link cannot send
    return link.setAttribute("href", file);
  }
  link.rel = "noreferrer noopener";
  link.target = "_blank";
  return undefined;
}

/** Splits off the text between two `---` lines at the beginning. */
function splitFrontMatter(text) {
  const match = /^---\r?\n([\s\S]*?)\r?\n---[ \t]*(\r?\n|$)/.exec(text);
  return match ? { header: match[1], body: text.slice(match[0].length) } : { header: "", body: text };
}

/** From the given data, else parsed from the header if it is simple enough, else the header as it is. */
function frontMatterTable(header, given) {
  const data = given && Object.keys(given).length ? given : parseFrontMatter(header);
  if (!header && !data) return null;
  const filled = data && Object.fromEntries(Object.entries(data).filter(([, value]) => !isEmpty(value)));
  return html`<section class="front-matter" aria-label="${t("result.front_matter")}">${filled ? dataTable(filled) : html`<pre>${header}</pre>`}</section>`;
}

const isEmpty = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

/** Parses `name: value` lines and simple lists; null for any other YAML. */
function parseFrontMatter(header) {
  if (!header.trim()) return null;
  const data = {};
  let list = null;
  for (const line of header.split(/\r?\n/)) {
    const item = /^\s*-\s+(.*)$/.exec(line);
    const pair = /^([^\s:#][^:]*):(?:\s+(.*))?$/.exec(line);
    if (item && list) data[list] = [...data[list], unquote(item[1])];
    else if (pair && pair[2]) [data[pair[1]], list] = [parseValue(pair[2]), null];
    else if (pair) [data[pair[1]], list] = [[], pair[1]];
    else if (line.trim()) return null;
  }
  return data;
}

function parseValue(text) {
  const list = /^\[(.*)\]$/.exec(text.trim());
  if (!list) return unquote(text);
  return list[1].trim() ? list[1].split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map(unquote) : [];
}

const unquote = (text) => text.trim().replace(/^(["'])(.*)\1$/, "$2");
