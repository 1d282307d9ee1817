// What stands before a document between two lines `---`, as facts.

import { html } from "./html.js";
import { tableOf } from "./tables.js";
import { t } from "./words.js";

/** The text between two lines `---` at the beginning, and the rest. */
export function parts(text) {
  const found = /^---\r?\n([\s\S]*?)\r?\n---[ \t]*(\r?\n|$)/.exec(text);
  return found ? { front: found[1], body: text.slice(found[0].length) } : { front: "", body: text };
}

/** As the results tell it; else as far as plain lines `name: value` go, else as it stands there. */
export function drawFront(front, told) {
  const facts = told && Object.keys(told).length ? told : read(front);
  if (!front && !facts) return null;
  const filled = facts && Object.fromEntries(Object.entries(facts).filter(([, value]) => !isEmpty(value)));
  return html`<section class="front" aria-label="${t("result.front")}">${filled ? tableOf(filled) : html`<pre>${front}</pre>`}</section>`;
}

const isEmpty = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

function read(front) {
  if (!front.trim()) return null;
  const facts = {};
  let list = null;
  for (const line of front.split(/\r?\n/)) {
    const item = /^\s*-\s+(.*)$/.exec(line);
    const pair = /^([^\s:#][^:]*):(?:\s+(.*))?$/.exec(line);
    if (item && list) facts[list] = [...facts[list], scalar(item[1])];
    else if (pair && pair[2]) [facts[pair[1]], list] = [inline(pair[2]), null];
    else if (pair) [facts[pair[1]], list] = [[], pair[1]];
    else if (line.trim()) return null; // more than plain lines: shown as it is
  }
  return facts;
}

function inline(text) {
  const list = /^\[(.*)\]$/.exec(text.trim());
  if (!list) return scalar(text);
  return list[1].trim() ? list[1].split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).map(scalar) : [];
}

const scalar = (text) => text.trim().replace(/^(["'])(.*)\1$/, "$2");
