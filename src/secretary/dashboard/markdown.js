// Markdown of strangers, made safe to look at.

import DOMPurify from "./vendor/dompurify-3.4.17.js";
import { Marked } from "./vendor/marked-15.0.12.js";
import { drawFront, parts } from "./front.js";
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

/**
 * An element with the document; pictures wait as `data-file` until they are looked at. `file` is
 * where the document is: what it names beside itself is beside it. `told` is its front matter.
 */
export function rendered(text, jobId, file = null, told = null) {
  const { front, body } = parts(text);
  const root = element(html`<article class="prose"></article>`);
  const facts = drawFront(front, told);
  if (facts) root.append(element(facts));
  const made = DOMPurify.sanitize(marked.parse(body), RULES);
  const home = `/api/files/${jobId}/`;
  const base = file?.startsWith(home) ? file : home;
  for (const image of made.querySelectorAll("img")) settlePicture(image, home, base);
  for (const link of made.querySelectorAll("a[href]")) settleLink(link, home, base);
  for (const table of made.querySelectorAll("table")) {
    const frame = element(html`<div class="scroll" tabindex="0" role="region" aria-label="${t("result.table")}"></div>`);
    table.replaceWith(frame);
    frame.append(table);
  }
  root.append(made);
  return root;
}

const isElsewhere = (address) => /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(address);

/** The job's file that is meant; null where it leads out of its files. */
function own(address, home, base) {
  if (address.startsWith("/api/")) return address;
  const asked = address.startsWith("/") ? home + address.slice(1) : address;
  const { pathname } = new URL(asked, new URL(base, location.origin));
  return pathname.startsWith(home) ? pathname : null;
}

/** A picture from elsewhere would tell them who looks: it becomes a link. */
function settlePicture(image, home, base) {
  const source = image.getAttribute("src") ?? "";
  const said = image.getAttribute("alt") || source;
  const mine = source && !isElsewhere(source) ? own(source, home, base) : null;
  if (/^https?:/i.test(source)) {
    image.replaceWith(element(html`<a href="${source}" rel="noreferrer noopener" target="_blank">🖼 ${said}</a>`));
  } else if (!mine) {
    image.replaceWith(document.createTextNode(said.slice(0, 200)));
  } else {
    image.dataset.file = mine;
    image.removeAttribute("src");
    image.alt = image.alt || "";
  }
}

function settleLink(link, home, base) {
  const address = link.getAttribute("href");
  if (address.startsWith("#")) return link.removeAttribute("href"); // that is where our views are
  if (!isElsewhere(address)) {
    const mine = own(address, home, base);
    if (!mine) return link.removeAttribute("href");
    link.dataset.save = mine; // it may need the key, which a link cannot show
    return link.setAttribute("href", mine);
  }
  link.rel = "noreferrer noopener";
  link.target = "_blank";
  return undefined;
}
