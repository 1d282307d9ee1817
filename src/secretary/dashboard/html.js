// Escaping templates. This is the only module that turns text into HTML.

const policy = globalThis.trustedTypes?.createPolicy("secretary", { createHTML: (text) => text });

class Markup {
  constructor(text) {
    this.text = text;
  }
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

const escape = (value) => String(value).replace(/[&<>"']/g, (character) => ENTITIES[character]);

function toMarkup(value) {
  if (value instanceof Markup) return value.text;
  if (Array.isArray(value)) return value.map(toMarkup).join("");
  if (value === null || value === undefined || value === false || value === true) return "";
  return escape(value);
}

/** html`<b>${value}</b>`: interpolated values are escaped unless they are markup themselves. */
export function html(strings, ...values) {
  return new Markup(strings.reduce((text, string, i) => text + toMarkup(values[i - 1]) + string));
}

export function render(node, markup) {
  const text = toMarkup(markup);
  node.innerHTML = policy ? policy.createHTML(text) : text;
  return node;
}

/** Creates a single element from a template. */
export function element(markup) {
  return render(document.createElement("template"), markup).content.firstElementChild;
}

/** A boolean attribute: html`<input ${flag("checked", isChecked)}>`. */
export const flag = (name, on) => (on ? new Markup(` ${name}`) : null);

/** The URL if it is safe to link to, else null. */
export function safeLink(url) {
  return /^https?:\/\//i.test(String(url)) ? String(url) : null;
}
