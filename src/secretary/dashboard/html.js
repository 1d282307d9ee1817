// Templates that escape by default. This is the one place that makes HTML of text.

const policy = globalThis.trustedTypes?.createPolicy("secretary", { createHTML: (text) => text });

class Markup {
  constructor(text) {
    this.text = text;
  }
}

const SPECIAL = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

const escaped = (value) => String(value).replace(/[&<>"']/g, (sign) => SPECIAL[sign]);

function piece(value) {
  if (value instanceof Markup) return value.text;
  if (Array.isArray(value)) return value.map(piece).join("");
  if (value === null || value === undefined || value === false || value === true) return "";
  return escaped(value);
}

/** html`<b>${anything}</b>`: whatever stands in the holes is text, unless it is itself made so. */
export function html(strings, ...values) {
  return new Markup(strings.reduce((text, part, i) => text + piece(values[i - 1]) + part));
}

export function render(node, markup) {
  const text = piece(markup);
  node.innerHTML = policy ? policy.createHTML(text) : text;
  return node;
}

/** A single element from a template. */
export function element(markup) {
  return render(document.createElement("template"), markup).content.firstElementChild;
}

/** An attribute without a value, or nothing: html`<input ${flag("checked", yes)}>`. */
export const flag = (name, on) => (on ? new Markup(` ${name}`) : null);

/** Where a link of a stranger may lead. */
export function safeLink(url) {
  return /^https?:\/\//i.test(String(url)) ? String(url) : null;
}
