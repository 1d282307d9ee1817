// Markdown of strangers, made safe to look at.

import DOMPurify from "./vendor/dompurify-3.4.17.js";
import { Marked } from "./vendor/marked-15.0.12.js";
import { element, html } from "./html.js";
import { t } from "./words.js";

const marked = new Marked({ gfm: true, async: false });
const RULES = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "option", "audio", "video", "dialog", "template", "meta", "link", "base"],
  FORBID_ATTR: ["style", "class", "id", "name", "srcset", "action", "formaction", "ping", "target", "tabindex", "autofocus"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

/** The text between two lines `---` at the beginning, and the rest. */
function parts(text) {
  const found = /^---\r?\n([\s\S]*?)\r?\n---[ \t]*(\r?\n|$)/.exec(text);
  return found ? { front: found[1], body: text.slice(found[0].length) } : { front: "", body: text };
}

/** An element with the document; pictures wait as `data-file` until they are looked at. */
export function rendered(text, jobId) {
  const { front, body } = parts(text);
  const root = element(html`<article class="prose"></article>`);
  if (front) root.append(element(html`<details class="front"><summary>${t("result.front")}</summary><pre>${front}</pre></details>`));
  const made = DOMPurify.sanitize(marked.parse(body), RULES);
  for (const image of made.querySelectorAll("img")) settlePicture(image, jobId);
  for (const link of made.querySelectorAll("a[href]")) settleLink(link, jobId);
  for (const table of made.querySelectorAll("table")) {
    const frame = element(html`<div class="scroll" tabindex="0" role="region" aria-label="${t("result.table")}"></div>`);
    table.replaceWith(frame);
    frame.append(table);
  }
  root.append(made);
  return root;
}

const isElsewhere = (address) => /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(address);

function own(address, jobId) {
  return address.startsWith("/api/") ? address : `/api/files/${jobId}/${address.replace(/^\.?\//, "")}`;
}

/** A picture from elsewhere would tell them who looks: it becomes a link. */
function settlePicture(image, jobId) {
  const source = image.getAttribute("src") ?? "";
  const said = image.getAttribute("alt") || source;
  if (/^https?:/i.test(source)) {
    image.replaceWith(element(html`<a href="${source}" rel="noreferrer noopener" target="_blank">🖼 ${said}</a>`));
  } else if (!source || isElsewhere(source)) {
    image.replaceWith(document.createTextNode(said.slice(0, 200)));
  } else {
    image.dataset.file = own(source, jobId);
    image.removeAttribute("src");
    image.alt = image.alt || "";
  }
}

function settleLink(link, jobId) {
  const address = link.getAttribute("href");
  if (address.startsWith("#")) return link.removeAttribute("href"); // that is where our views are
  if (!isElsewhere(address)) return link.setAttribute("href", own(address, jobId));
  link.rel = "noreferrer noopener";
  link.target = "_blank";
  return undefined;
}
