// Forms generated from the JSON Schema of a job type's parameters.

import { element, flag, html } from "./html.js";
import { t, translateHint } from "./i18n.js";

/** Set by the file or URL itself, or aliases of other fields. */
const HIDDEN_FIELDS = new Set(["url", "file_path", "file_source", "file_sources", "force_overwrite", "extra"]);
const MAIN_FIELDS = ["text", "messages", "prompt", "markdown", "size", "n", "extraction_method", "include_images", "template", "target_language", "source_language", "summarize", "instructions", "seconds", "steps", "include_frames", "include_slide_text"];

export function fieldsOf(schema) {
  const names = Object.keys(schema.properties ?? {}).filter((name) => !HIDDEN_FIELDS.has(name));
  const rank = (name) => (MAIN_FIELDS.includes(name) ? MAIN_FIELDS.indexOf(name) : MAIN_FIELDS.length);
  return names.sort((a, b) => rank(a) - rank(b)).map((name) => ({
    name,
    main: MAIN_FIELDS.includes(name),
    required: schema.required?.includes(name) ?? false,
    ...resolve(schema.properties[name], schema),
  }));
}

/** A field's schema with references resolved and without the null variant of an optional field. */
function resolve(field, schema) {
  const variant = (field.anyOf ?? field.oneOf)?.find((option) => option.type !== "null") ?? field;
  const reference = variant.$ref?.split("/").pop();
  return { ...field, ...(reference ? schema.$defs?.[reference] : variant) };
}

/** Parameters as form values: undeclared ones beside the declared ones, without the file. */
export function formValues({ extra, file_source: _, file_sources: __, ...declared }) {
  return { ...(extra && typeof extra === "object" ? extra : {}), ...declared };
}

/** `scope` keeps element IDs unique when a page has the forms of several job types. */
export function drawFields(schema, values, templates, scope = "") {
  const fields = fieldsOf(schema);
  const draw = (list) => list.map((field) => html`<div class="field">${control(field, values[field.name], templates, scope)}</div>`);
  const more = fields.filter((field) => !field.main);
  const anyFilled = more.some((field) => values[field.name] !== undefined && values[field.name] !== null);
  return html`<div class="fields wide">${draw(fields.filter((field) => field.main))}</div>
    ${more.length ? html`<details ${flag("open", anyFilled)}><summary>${t("submit.more")}</summary><div class="fields wide">${draw(more)}</div></details>` : ""}`;
}

const idOf = (scope, name) => `f-${scope}-${name}`.replace(/[^\w-]/g, "_");

function control(field, given, templates, scope) {
  const { name, description } = field;
  const id = idOf(scope, name);
  const value = given ?? field.default ?? "";
  const text = t(`field.${name}`, {}, name.replaceAll("_", " "));
  const hint = description && html` <small id="${id}-hint">${translateHint(description)}</small>`;
  const describedBy = description ? html` aria-describedby="${id}-hint"` : null;
  const required = flag("required", field.required);
  if (field.type === "boolean") {
    return html`<label class="check"><input type="checkbox" name="${name}" ${flag("checked", value === true)} ${describedBy}> ${text}</label>${hint}`;
  }
  const label = html`<label for="${id}">${text}${field.required && " *"}</label>`;
  if (field.enum) {
    const isOptional = !field.required && (field.default === null || field.default === undefined);
    return html`${label}<select id="${id}" name="${name}" ${describedBy}>${[...(isOptional ? [""] : []), ...field.enum].map((option) =>
      html`<option value="${option}" ${flag("selected", String(option) === String(value))}>${option === "" ? "–" : t(`value.${option}`, {}, String(option))}</option>`)}</select>${hint}`;
  }
  if (name === "template" && templates.length) {
    return html`${label}<input id="${id}" name="template" list="${id}-list" value="${value}" ${describedBy}><datalist id="${id}-list">${templates.map((template) =>
      html`<option value="${template.name}">${template.title}</option>`)}</datalist>${hint}`;
  }
  if (field.type === "integer" || field.type === "number") {
    return html`${label}<input id="${id}" name="${name}" type="number" step="${field.type === "integer" ? "1" : "any"}" min="${field.minimum ?? ""}"
      max="${field.maximum ?? ""}" value="${value}" ${required} ${describedBy}>${hint}`;
  }
  if (isStringList(field)) {
    return html`${label}<input id="${id}" name="${name}" type="text" autocomplete="off" placeholder="a, b, c" value="${[value].flat().join(", ")}" ${required} ${describedBy}>${hint}`;
  }
  if (field.type === "object" || field.type === "array") {
    const json = value && typeof value === "object" && Object.keys(value).length ? JSON.stringify(value) : "";
    const example = field.type === "object" ? '{"…": "…"}' : '["…", "…"]';
    return html`${label}<textarea id="${id}" name="${name}" rows="2" data-json placeholder="${example}" ${required} ${describedBy}>${json}</textarea>${hint}`;
  }
  if (["text", "prompt", "markdown", "instructions"].includes(name) || name.endsWith("_content")) {
    return html`${label}<textarea id="${id}" name="${name}" rows="${name === "instructions" ? 2 : 4}" ${required} ${describedBy}>${value}</textarea>${hint}`;
  }
  const constraints = html`${field.pattern && html` pattern="${field.pattern}"`}${field.maxLength && html` maxlength="${field.maxLength}"`}`;
  return html`${label}<input id="${id}" name="${name}" type="${name === "password" ? "password" : "text"}" autocomplete="off" value="${value}" ${required} ${describedBy}${constraints}>${hint}`;
}

/** Lists of strings are entered separated by commas. */
const isStringList = (field) => field.type === "array" && field.items?.type === "string";

const inputOf = (container, name) => container.querySelector(`[name="${CSS.escape(name)}"]`);

/** The values that differ from the defaults; null if any is invalid, which is shown beside its field. */
export function readValues(container, schema) {
  const values = {};
  let valid = true;
  clearErrors(container);
  for (const field of fieldsOf(schema)) {
    const input = inputOf(container, field.name);
    if (!input) continue;
    const [value, error] = readValue(input, field);
    if (error) {
      showError(container, field.name, error);
      valid = false;
    }
    const isDefault = JSON.stringify(value) === JSON.stringify(field.default ?? null);
    if (value !== null && !isDefault) values[field.name] = value;
  }
  return valid ? values : null;
}

function readValue(input, field) {
  if (!input.checkValidity()) return [null, input.validationMessage];
  if (field.type === "boolean") return [input.checked, null];
  const text = input.value.trim();
  if (!text) return [null, null];
  if (field.type === "integer" || field.type === "number") return [Number(text), null];
  if (isStringList(field)) return [text.split(",").map((item) => item.trim()).filter(Boolean), null];
  if (field.type !== "object" && field.type !== "array") return [text, null];
  try {
    const value = JSON.parse(text);
    const matches = Array.isArray(value) ? field.type === "array" : field.type === "object" && value !== null && typeof value === "object";
    return matches ? [value, null] : [null, t(`submit.not_${field.type}`)];
  } catch {
    return [null, t("submit.invalid_json")];
  }
}

/** Shows an error beside a field; returns whether there is such a field. */
export function showError(container, name, error) {
  const input = inputOf(container, name);
  if (!input) return false;
  const field = input.closest(".field") ?? input.parentElement;
  const message = element(html`<small class="field-error" id="${input.id || idOf("", name)}-error">${error}</small>`);
  field.append(message);
  input.dataset.hint ??= input.getAttribute("aria-describedby") ?? "";
  input.setAttribute("aria-describedby", `${input.dataset.hint} ${message.id}`.trim());
  input.ariaInvalid = "true";
  input.closest("details")?.setAttribute("open", "");
  return true;
}

export function clearErrors(container) {
  for (const message of container.querySelectorAll(".field-error")) message.remove();
  for (const input of container.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    if (input.dataset.hint) input.setAttribute("aria-describedby", input.dataset.hint);
    else input.removeAttribute("aria-describedby");
  }
}
