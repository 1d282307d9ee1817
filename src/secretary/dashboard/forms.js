// The form of a job type, from the JSON Schema of its parameters.

import { element, flag, html } from "./html.js";
import { hintOf } from "./hints.js";
import { t } from "./words.js";

/** Said by the file or the URL itself, or another name of something that is asked for already. */
const OWN = new Set(["url", "file_path", "file_source", "force_overwrite", "extra"]);
const FIRST = ["text", "extraction_method", "include_images", "template", "target_language", "source_language", "summarize", "instructions", "seconds", "steps", "include_frames", "include_slide_text"];

/** The part of `anyOf` that is not null; the schema itself where there is only one. */
function core(schema, root) {
  const one = (schema.anyOf ?? schema.oneOf)?.find((part) => part.type !== "null") ?? schema;
  const name = one.$ref?.split("/").pop();
  return { ...schema, ...(name ? root.$defs?.[name] : one) };
}

export function fieldsOf(schema) {
  const names = Object.keys(schema.properties ?? {}).filter((name) => !OWN.has(name));
  const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return names.sort((a, b) => rank(a) - rank(b)).map((name) => ({
    name,
    main: FIRST.includes(name),
    required: schema.required?.includes(name) ?? false,
    ...core(schema.properties[name], schema),
  }));
}

/** Parameters as a form has them: those that nobody declared beside the others, and without the file. */
export function flat({ extra, file_source: _, ...declared }) {
  return { ...(extra && typeof extra === "object" ? extra : {}), ...declared };
}

/** `scope` tells the fields of one job type from those of another on the same page. */
export function drawFields(schema, values, templates, scope = "") {
  const fields = fieldsOf(schema);
  const draw = (list) => list.map((field) => html`<div class="field">${control(field, values[field.name], templates, scope)}</div>`);
  const more = fields.filter((field) => !field.main);
  const used = more.some((field) => values[field.name] !== undefined && values[field.name] !== null);
  return html`<div class="fields wide">${draw(fields.filter((field) => field.main))}</div>
    ${more.length ? html`<details ${flag("open", used)}><summary>${t("submit.more")}</summary><div class="fields wide">${draw(more)}</div></details>` : ""}`;
}

const idOf = (scope, name) => `f-${scope}-${name}`.replace(/[^\w-]/g, "_");

function control(field, given, templates, scope) {
  const { name, description } = field;
  const id = idOf(scope, name);
  const value = given ?? field.default ?? "";
  const label = t(`field.${name}`, {}, name.replaceAll("_", " "));
  const hint = description && html` <small id="${id}-hint">${hintOf(description)}</small>`;
  const described = description ? html` aria-describedby="${id}-hint"` : null;
  const needed = flag("required", field.required);
  if (field.type === "boolean") {
    return html`<label class="check"><input type="checkbox" name="${name}" ${flag("checked", value === true)} ${described}> ${label}</label>${hint}`;
  }
  const head = html`<label for="${id}">${label}${field.required && " *"}</label>`;
  if (field.enum) {
    const optional = !field.required && (field.default === null || field.default === undefined);
    return html`${head}<select id="${id}" name="${name}" ${described}>${[...(optional ? [""] : []), ...field.enum].map((one) =>
      html`<option value="${one}" ${flag("selected", String(one) === String(value))}>${one === "" ? "–" : t(`value.${one}`, {}, String(one))}</option>`)}</select>${hint}`;
  }
  if (name === "template" && templates.length) {
    return html`${head}<input id="${id}" name="template" list="${id}-list" value="${value}" ${described}><datalist id="${id}-list">${templates.map((one) =>
      html`<option value="${one.name}">${one.title}</option>`)}</datalist>${hint}`;
  }
  if (field.type === "integer" || field.type === "number") {
    return html`${head}<input id="${id}" name="${name}" type="number" step="${field.type === "integer" ? "1" : "any"}" min="${field.minimum ?? ""}"
      max="${field.maximum ?? ""}" value="${value}" ${needed} ${described}>${hint}`;
  }
  if (isWords(field)) {
    return html`${head}<input id="${id}" name="${name}" type="text" autocomplete="off" placeholder="a, b, c" value="${[value].flat().join(", ")}" ${needed} ${described}>${hint}`;
  }
  if (field.type === "object" || field.type === "array") {
    const shown = value && typeof value === "object" && Object.keys(value).length ? JSON.stringify(value) : "";
    const example = field.type === "object" ? '{"…": "…"}' : '["…", "…"]';
    return html`${head}<textarea id="${id}" name="${name}" rows="2" data-json placeholder="${example}" ${needed} ${described}>${shown}</textarea>${hint}`;
  }
  if (name === "text" || name.endsWith("_content") || name === "instructions") {
    return html`${head}<textarea id="${id}" name="${name}" rows="${name === "instructions" ? 2 : 4}" ${needed} ${described}>${value}</textarea>${hint}`;
  }
  const bounds = html`${field.pattern && html` pattern="${field.pattern}"`}${field.maxLength && html` maxlength="${field.maxLength}"`}`;
  return html`${head}<input id="${id}" name="${name}" type="${name === "password" ? "password" : "text"}" autocomplete="off" value="${value}" ${needed} ${described}${bounds}>${hint}`;
}

/** A list of texts is written with commas. */
const isWords = (field) => field.type === "array" && field.items?.type === "string";

const inputOf = (place, name) => place.querySelector(`[name="${CSS.escape(name)}"]`);

/** What was filled in, without what is as it would be anyway; null where something does not fit, which is then said there. */
export function valuesOf(place, schema) {
  const values = {};
  let fits = true;
  clearProblems(place);
  for (const field of fieldsOf(schema)) {
    const input = inputOf(place, field.name);
    if (!input) continue;
    const [value, problem] = read(input, field);
    if (problem) {
      mark(place, field.name, problem);
      fits = false;
    }
    const same = JSON.stringify(value) === JSON.stringify(field.default ?? null);
    if (value !== null && !same) values[field.name] = value;
  }
  return fits ? values : null;
}

function read(input, field) {
  if (!input.checkValidity()) return [null, input.validationMessage];
  if (field.type === "boolean") return [input.checked, null];
  const text = input.value.trim();
  if (!text) return [null, null];
  if (field.type === "integer" || field.type === "number") return [Number(text), null];
  if (isWords(field)) return [text.split(",").map((part) => part.trim()).filter(Boolean), null];
  if (field.type !== "object" && field.type !== "array") return [text, null];
  try {
    const value = JSON.parse(text);
    const right = Array.isArray(value) ? field.type === "array" : field.type === "object" && value !== null && typeof value === "object";
    return right ? [value, null] : [null, t(`submit.no_${field.type}`)];
  } catch {
    return [null, t("submit.no_json")];
  }
}

/** Says beside a field what is wrong with it; whether there is such a field. */
export function mark(place, name, problem) {
  const input = inputOf(place, name);
  if (!input) return false;
  const field = input.closest(".field") ?? input.parentElement;
  const note = element(html`<small class="problem" id="${input.id || idOf("", name)}-problem">${problem}</small>`);
  field.append(note);
  input.dataset.hint ??= input.getAttribute("aria-describedby") ?? "";
  input.setAttribute("aria-describedby", `${input.dataset.hint} ${note.id}`.trim());
  input.ariaInvalid = "true";
  input.closest("details")?.setAttribute("open", "");
  return true;
}

export function clearProblems(place) {
  for (const note of place.querySelectorAll(".problem")) note.remove();
  for (const input of place.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    if (input.dataset.hint) input.setAttribute("aria-describedby", input.dataset.hint);
    else input.removeAttribute("aria-describedby");
  }
}
