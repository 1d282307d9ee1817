// New work: files, URLs, or neither; the form is that of the job types they are for.

import { get, post, upload } from "./api.js";
import { handOver, taken } from "./drop.js";
import { number, size } from "./format.js";
import { clearProblems, drawFields, flat, mark, valuesOf } from "./forms.js";
import { element, flag, html, render } from "./html.js";
import { UPLOADS, typeOf, typeOfUrl } from "./kinds.js";
import { reason, tell } from "./notices.js";
import { t } from "./words.js";

const USUAL = ["pdf", "office", "imageocr", "audio", "video", "transformer", "session"];
const MOST_FILES = 500; // in one batch
const isAddress = (text) => /^https?:\/\/[^/]/i.test(text);
const typeName = (name) => t(`type.${name}`, {}, name);

export async function show(root, { query, left, shown }) {
  const [{ job_types: types }, { templates }, again] = await Promise.all([
    get("/api/job-types", { signal: left }),
    get("/api/templates", { signal: left }).catch(() => ({ templates: [] })),
    query.get("again") ? get(`/api/jobs/${encodeURIComponent(query.get("again"))}`, { signal: left }) : null,
  ]);
  const page = new Page(root, { types, templates, again, type: query.get("type"), left });
  page.draw();
  shown();
  page.take(taken());
  window.addEventListener("handed", () => page.take(taken()), { signal: left });
}

class Page {
  constructor(root, { types, templates, again, type, left }) {
    Object.assign(this, { root, types, templates, left });
    this.files = []; // {file, type}: the type that is guessed, or that somebody chose for it
    this.values = again ? flat(again.parameters) : {};
    this.urls = this.values.url ?? "";
    this.fixed = again?.job_type ?? type ?? null; // the type that somebody chose
    this.lost = again?.parameters.file_source?.name ?? null;
    this.sections = new Map(); // the form of each type, as long as something is of that type
  }

  find(id) {
    return this.root.querySelector(`#${id}`);
  }

  schema(type) {
    return this.types.find((one) => one.job_type === type)?.parameters ?? { properties: {} };
  }

  get addresses() {
    return this.urls.split(/\s+/).filter(Boolean);
  }

  get typesOfAddresses() {
    return this.addresses.filter(isAddress).map((url) => this.fixed ?? typeOfUrl(url));
  }

  get inPlay() {
    const found = [...this.files.map((one) => this.fixed ?? one.type), ...this.typesOfAddresses, this.fixed];
    return [...new Set(found.filter(Boolean))];
  }

  draw() {
    const names = this.types.map((one) => one.job_type);
    const sorted = [...USUAL.filter((name) => names.includes(name)), ...names.filter((name) => !USUAL.includes(name))];
    render(this.root, html`<h1>${t("submit.title")}</h1><form id="submit" class="submit" novalidate>
      ${this.lost && html`<p class="card calm">${t("submit.file_again", { name: this.lost })}</p>`}
      <div class="card zone" id="zone"><p><label class="button quiet" for="files">${t("submit.choose")}</label>
        <input type="file" id="files" multiple class="unseen"> <span class="faint">${t("submit.drop")}</span></p>
        <ul id="chosen" class="chosen"></ul>
        <div class="field"><label for="urls">${t("submit.urls")}</label>
        <textarea id="urls" name="urls" rows="2" placeholder="https://example.org/report.pdf" spellcheck="false">${this.urls}</textarea>
        <small id="kinds" role="status"></small></div></div>
      <div class="field" id="naming" hidden><label for="batch_name">${t("submit.batch_name")}</label><input id="batch_name" name="batch_name" maxlength="500" autocomplete="off" aria-describedby="batch_hint">
        <small id="batch_hint">${t("submit.batch_hint")}</small></div>
      <div class="field"><label for="type">${t("submit.type")}</label><select id="type">
        <option value="">${t("submit.by_file")}</option>${sorted.map((name) => html`<option value="${name}" ${flag("selected", name === this.fixed)}>${typeName(name)}</option>`)}</select></div>
      <div id="fields"></div>
      <p class="actions"><button type="submit" id="send"></button> <button type="button" class="quiet" id="stop" hidden>${t("submit.stop")}</button></p>
      <div id="sent" class="sent" hidden><progress max="100" value="0" aria-label="${t("submit.upload")}"></progress> <span class="faint"></span></div>
      <p id="wrong" class="wrong" role="alert"></p></form>`);
    this.listen();
    this.drawFiles();
  }

  listen() {
    this.find("files").addEventListener("change", (event) => {
      handOver(event.target.files);
      event.target.value = ""; // so that the same file can be chosen again
    });
    this.find("urls").addEventListener("input", (event) => ((this.urls = event.target.value), this.change()));
    this.find("type").addEventListener("change", (event) => {
      this.fixed = event.target.value || null;
      this.drawFiles();
    });
    this.find("submit").addEventListener("submit", (event) => (event.preventDefault(), this.submit()));
    this.find("stop").addEventListener("click", () => this.stopped?.abort());
    this.find("chosen").addEventListener("click", (event) => {
      const at = event.target.closest("[data-drop]")?.dataset.drop;
      if (at === undefined) return;
      this.files.splice(Number(at), 1);
      this.drawFiles();
      (this.root.querySelector("[data-drop]") ?? this.find("files")).focus();
    });
    this.find("chosen").addEventListener("change", (event) => {
      this.files[Number(event.target.dataset.typeOf)].type = event.target.value || null;
      this.change();
    });
  }

  take({ files, urls }) {
    const known = this.types.map((one) => one.job_type);
    const guess = (file) => [typeOf(file.name, file.type)].find((type) => known.includes(type)) ?? null;
    this.files.push(...files.map((file) => ({ file, type: guess(file) })));
    if (urls.length) {
      this.urls = [...this.addresses, ...urls].join("\n");
      this.find("urls").value = this.urls;
    }
    this.drawFiles();
  }

  drawFiles() {
    render(this.find("chosen"), this.files.map(({ file, type }, i) => html`<li><span>${file.name}</span> <span class="faint">${size(file.size)}</span>
      ${this.fixed ? html`<span class="faint">${typeName(this.fixed)}</span>` : this.typeChoice(file, type, i)}
      <button type="button" class="quiet" data-drop="${i}" aria-label="${t("submit.remove", { name: file.name })}">✕</button></li>`));
    this.change();
  }

  typeChoice(file, type, i) {
    return html`<select data-type-of="${i}" aria-label="${t("submit.type_of", { name: file.name })}">${!type && html`<option value="">${t("submit.unknown")}</option>`}
      ${Object.keys(UPLOADS).map((name) => html`<option value="${name}" ${flag("selected", name === type)}>${typeName(name)}</option>`)}</select>`;
  }

  /** What will become of it; forms stay as they are filled in as long as their type is in play. */
  change() {
    const types = this.inPlay;
    for (const [type, section] of this.sections) {
      if (types.includes(type)) continue;
      section.remove();
      this.sections.delete(type);
    }
    for (const type of types) {
      if (this.sections.has(type)) continue;
      const section = element(html`<section class="of-type" aria-label="${typeName(type)}"><h2>${t("submit.options", { type: typeName(type) })}</h2>${drawFields(this.schema(type), this.values, this.templates, type)}</section>`);
      this.sections.set(type, section);
      this.find("fields").append(section);
    }
    for (const section of this.sections.values()) section.querySelector("h2").hidden = types.length < 2;
    const count = this.files.length + this.addresses.length;
    this.find("naming").hidden = count < 2;
    this.find("send").textContent = count > 1 ? t("submit.send_all", { count: number(count) }) : t("submit.send");
    this.find("urls").rows = Math.min(8, Math.max(2, this.urls.split("\n").length));
    const kinds = this.typesOfAddresses.map(typeName);
    const counted = [...new Set(kinds)].map((name) => (kinds.length > 1 ? `${number(kinds.filter((one) => one === name).length)} × ${name}` : name));
    this.find("kinds").textContent = counted.join(", ");
  }

  async submit() {
    const form = this.find("submit");
    const button = this.find("send");
    if (button.disabled) return;
    this.find("wrong").textContent = "";
    clearProblems(form);
    try {
      const jobs = this.jobs();
      if (!jobs) return this.lookAt(form.querySelector("[aria-invalid], .problem"));
      button.disabled = true;
      await this.send(jobs);
    } catch (error) {
      if (error.name !== "AbortError") this.explain(error);
    } finally {
      button.disabled = false;
      for (const id of ["sent", "stop"]) if (this.find(id)) this.find(id).hidden = true;
    }
    return undefined;
  }

  lookAt(place) {
    place?.scrollIntoView({ block: "center" });
    place?.focus?.();
  }

  /** Each with its file, if it has one; null when something is missing, which is said beside it. */
  jobs() {
    const values = new Map([...this.sections].map(([type, section]) => [type, valuesOf(section, this.schema(type))]));
    let fits = ![...values.values()].includes(null);
    const refuse = (place, name, text) => ((fits = false), place ? mark(place, name, text) : (this.find("wrong").textContent = text));
    const jobs = this.files.map(({ file, type }) => ({ file, job_type: this.fixed ?? type }));
    for (const [i, { file, job_type: type }] of jobs.entries()) {
      if (!UPLOADS[type]) this.faultOfFile(i, type ? t("submit.no_file", { type: typeName(type) }) : t("submit.which", { name: file.name })), (fits = false);
    }
    if (jobs.length > MOST_FILES) refuse(null, "", t("submit.too_many", { count: number(MOST_FILES) }));
    for (const url of this.addresses) {
      if (!isAddress(url)) refuse(this.find("zone"), "urls", t("submit.no_address", { text: url }));
      jobs.push({ job_type: this.fixed ?? typeOfUrl(url), url });
    }
    if (!jobs.length) {
      const own = values.get(this.fixed) ?? {};
      const needs = !this.fixed || ("url" in (this.schema(this.fixed).properties ?? {}) && !own.text && !own.video_url);
      if (needs) refuse(this.find("zone"), "urls", t("submit.nothing"));
      jobs.push({ job_type: this.fixed });
    }
    if (!fits) return null;
    return jobs.map(({ url, ...job }) => ({ ...job, parameters: { ...values.get(job.job_type), ...(url && { url }) } }));
  }

  faultOfFile(i, text) {
    this.find("chosen").children[i]?.append(element(html`<small class="problem">${text}</small>`));
  }

  async send(jobs) {
    if (jobs.length > 1) {
      const { batch_id } = await this.sendBatch(jobs);
      return this.made(t("submit.batch_made"), `#/batch/${batch_id}`);
    }
    const [{ file, ...job }] = jobs;
    const { job_id } = file ? await this.sendFile(file, job) : await post("/api/jobs", job);
    return this.made(t("submit.made"), `#/job/${job_id}`);
  }

  made(text, address) {
    tell(text);
    // Who went on to something else while it was sent stays there.
    if (!this.left.aborted) location.hash = address;
  }

  async sendBatch(jobs) {
    const batch_name = this.find("batch_name").value.trim() || undefined;
    const files = jobs.filter((job) => job.file).map((job) => job.file);
    const asked = jobs.map(({ file, ...job }) => (file ? { ...job, file: files.indexOf(file) } : job));
    this.sentTypes = asked.map((job) => job.job_type);
    if (!files.length) return post("/api/batches", { batch_name, jobs: asked });
    const form = new FormData();
    if (batch_name) form.append("batch_name", batch_name);
    form.append("jobs", JSON.stringify(asked));
    for (const file of files) form.append("file", file, file.name);
    return (await this.upload("/api/batches/from-files", form, files)).data;
  }

  sendFile(file, { job_type: type, parameters }) {
    const form = new FormData();
    this.sentTypes = [type];
    // Fields before the file: the service reads a form as it comes.
    for (const [name, value] of Object.entries(parameters)) form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    form.append("file", file, file.name);
    return this.upload(UPLOADS[type], form, [file]);
  }

  upload(path, form, files) {
    const total = files.reduce((sum, file) => sum + file.size, 0);
    const [bar, text] = this.find("sent").children;
    this.find("sent").hidden = this.find("stop").hidden = false;
    this.stopped = new AbortController();
    return upload(path, form, (part) => {
      bar.value = part * 100;
      text.textContent = part < 1 ? t("submit.sending", { percent: Math.floor(part * 100), sent: size(part * total), total: size(total) }) : t("submit.checking");
    }, this.stopped.signal);
  }

  /** What the service refused, beside what it is about. */
  explain(error) {
    const rest = (error.details?.problems ?? []).filter(({ field, problem }) => !this.markProblem(field, problem));
    const said = reason(error);
    const at = this.files.findIndex(({ file }) => said.startsWith(`${file.name}: `));
    if (at >= 0) this.faultOfFile(at, said.slice(this.files[at].file.name.length + 2));
    else if (rest.length || !error.details?.problems?.length) this.find("wrong").textContent = said;
    this.lookAt(this.root.querySelector("[aria-invalid], .problem") ?? this.find("wrong"));
  }

  markProblem(field, problem) {
    const [, job, name] = /^(?:jobs\.(\d+)\.)?parameters\.(\w+)/.exec(field) ?? [];
    const section = this.sections.get(this.sentTypes?.[Number(job ?? 0)] ?? this.fixed ?? [...this.sections.keys()][0]);
    if (name === "url") return mark(this.find("zone"), "urls", problem);
    const already = section?.querySelector(`[name="${CSS.escape(name ?? "")}"][aria-invalid]`);
    return Boolean(already) || (name && section ? mark(section, name, problem) : false);
  }
}
