// The form of a job type, from the JSON Schema of its parameters.

import { flag, html } from "./html.js";
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

export function drawFields(schema, values, templates) {
  const fields = fieldsOf(schema);
  const draw = (list) => list.map((field) => html`<div class="field">${control(field, values[field.name], templates)}</div>`);
  const more = fields.filter((field) => !field.main);
  const used = more.some((field) => values[field.name] !== undefined && values[field.name] !== null);
  return html`<div class="fields wide">${draw(fields.filter((field) => field.main))}</div>
    ${more.length ? html`<details ${flag("open", used)}><summary>${t("submit.more")}</summary><div class="fields wide">${draw(more)}</div></details>` : ""}`;
}

function control(field, given, templates) {
  const { name, description } = field;
  const value = given ?? field.default ?? "";
  const label = t(`field.${name}`, {}, name.replaceAll("_", " "));
  const hint = description && html` <small id="hint-${name}">${description}</small>`;
  const described = description ? flag(`aria-describedby="hint-${name}"`, /^\w+$/.test(name)) : null;
  const needed = flag("required", field.required);
  if (field.type === "boolean") {
    return html`<label class="check"><input type="checkbox" name="${name}" ${flag("checked", value === true)} ${described}> ${label}</label>${hint}`;
  }
  const head = html`<label for="f-${name}">${label}${field.required && " *"}</label>`;
  if (field.enum) {
    const optional = field.default === null || field.default === undefined;
    return html`${head}<select id="f-${name}" name="${name}" ${described}>${[...(optional ? [""] : []), ...field.enum].map((one) =>
      html`<option value="${one}" ${flag("selected", String(one) === String(value))}>${one === "" ? "–" : t(`value.${one}`, {}, String(one))}</option>`)}</select>${hint}`;
  }
  if (name === "template" && templates.length) {
    return html`${head}<input id="f-template" name="template" list="templates" value="${value}" ${described}><datalist id="templates">${templates.map((one) =>
      html`<option value="${one.name}">${one.title}</option>`)}</datalist>${hint}`;
  }
  if (field.type === "integer" || field.type === "number") {
    return html`${head}<input id="f-${name}" name="${name}" type="number" step="${field.type === "integer" ? "1" : "any"}" min="${field.minimum ?? ""}"
      max="${field.maximum ?? ""}" value="${value}" ${needed} ${described}>${hint}`;
  }
  if (field.type === "object" || field.type === "array") {
    const shown = value && typeof value === "object" && Object.keys(value).length ? JSON.stringify(value) : "";
    const example = field.type === "object" ? '{"…": "…"}' : "[…]";
    return html`${head}<textarea id="f-${name}" name="${name}" rows="2" data-json placeholder="${example}" ${described}>${shown}</textarea>${hint}`;
  }
  if (name === "text" || name.endsWith("_content") || name === "instructions") {
    return html`${head}<textarea id="f-${name}" name="${name}" rows="${name === "instructions" ? 2 : 4}" ${needed} ${described}>${value}</textarea>${hint}`;
  }
  return html`${head}<input id="f-${name}" name="${name}" type="${name === "password" ? "password" : "text"}" autocomplete="off" value="${value}" ${needed} ${described}>${hint}`;
}

/** What was filled in, without what is as it would be anyway. Throws where JSON is none. */
export function valuesOf(form, schema) {
  const values = {};
  for (const field of fieldsOf(schema)) {
    const input = form.elements[field.name];
    if (!input) continue;
    const value = read(input, field);
    const same = JSON.stringify(value) === JSON.stringify(field.default ?? null);
    if (value !== null && !same) values[field.name] = value;
  }
  return values;
}

function read(input, field) {
  if (field.type === "boolean") return input.checked;
  const text = input.value.trim();
  if (!text) return null;
  if (field.type === "integer" || field.type === "number") return Number(text);
  if (field.type !== "object" && field.type !== "array") return text;
  try {
    return JSON.parse(text);
  } catch {
    input.focus();
    throw new Error(t("submit.no_json", { name: field.name }));
  }
}
