// The submit form: files and URLs, and the parameters of the job types they are for.

import { get, post, upload } from "./api.js";
import { UPLOAD_ROUTES, addToForm, takePending, typeOfFile, typeOfUrl } from "./dropzone.js";
import { number, size } from "./format.js";
import { clearErrors, drawFields, formValues, readValues, showError } from "./forms.js";
import { element, flag, html, render } from "./html.js";
import { t } from "./i18n.js";
import { errorMessage, notify } from "./notifications.js";

const TYPE_ORDER = ["pdf", "office", "imageocr", "imageanalyzer", "audio", "video", "transformer", "session", "chat", "embedding", "text2image"];
const MAX_BATCH_FILES = 500;
const isUrl = (text) => /^https?:\/\/[^/]/i.test(text);
const typeName = (type) => t(`type.${type}`, {}, type);

export async function show(root, { query, signal, onReady }) {
  const [{ job_types: jobTypes }, { templates }, original] = await Promise.all([
    get("/api/job-types", { signal }),
    get("/api/templates", { signal }).catch(() => ({ templates: [] })),
    query.get("again") ? get(`/api/jobs/${encodeURIComponent(query.get("again"))}`, { signal }) : null,
  ]);
  const form = new SubmitForm(root, { jobTypes, templates, original, type: query.get("type"), signal });
  form.draw();
  onReady();
  form.add(takePending());
  window.addEventListener("filesadded", () => form.add(takePending()), { signal });
}

class SubmitForm {
  /** `original` is the job to submit again, if any. */
  constructor(root, { jobTypes, templates, original, type, signal }) {
    Object.assign(this, { root, jobTypes, templates, signal });
    this.files = []; // {file, type}; the type is detected or chosen for this file
    this.values = original ? formValues(original.parameters) : {};
    this.urlText = this.values.url ?? "";
    this.chosenType = original?.job_type ?? type ?? null; // applies to all files and URLs
    this.originalFile = original?.parameters.file_source?.name ?? null;
    this.sections = new Map(); // the parameter form of each job type in use
  }

  byId(id) {
    return this.root.querySelector(`#${id}`);
  }

  schema(type) {
    return this.jobTypes.find((jobType) => jobType.job_type === type)?.parameters ?? { properties: {} };
  }

  get urls() {
    return this.urlText.split(/\s+/).filter(Boolean);
  }

  get urlTypes() {
    return this.urls.filter(isUrl).map((url) => this.chosenType ?? typeOfUrl(url));
  }

  get usedTypes() {
    const types = [...this.files.map(({ type }) => this.chosenType ?? type), ...this.urlTypes, this.chosenType];
    return [...new Set(types.filter(Boolean))];
  }

  draw() {
    const types = this.jobTypes.map((jobType) => jobType.job_type);
    const sorted = [...TYPE_ORDER.filter((type) => types.includes(type)), ...types.filter((type) => !TYPE_ORDER.includes(type))];
    render(this.root, html`<h1>${t("submit.title")}</h1><form id="submit" class="submit" novalidate>
      ${this.originalFile && html`<p class="card info">${t("submit.choose_again", { name: this.originalFile })}</p>`}
      <div class="card sources" id="sources"><p><label class="button secondary" for="files">${t("submit.choose")}</label>
        <input type="file" id="files" multiple class="visually-hidden"> <span class="muted">${t("submit.drop")}</span></p>
        <ul id="file-list" class="file-list"></ul>
        <div class="field"><label for="urls">${t("submit.urls")}</label>
        <textarea id="urls" name="urls" rows="2" placeholder="https://example.org/report.pdf" spellcheck="false">${this.urlText}</textarea>
        <small id="url-types" role="status"></small></div></div>
      <div class="field" id="batch-field" hidden><label for="batch_name">${t("submit.batch_name")}</label><input id="batch_name" name="batch_name" maxlength="500" autocomplete="off" aria-describedby="batch_hint">
        <small id="batch_hint">${t("submit.batch_hint")}</small></div>
      <div class="field"><label for="type">${t("submit.type")}</label><select id="type">
        <option value="">${t("submit.detect")}</option>${sorted.map((type) => html`<option value="${type}" ${flag("selected", type === this.chosenType)}>${typeName(type)}</option>`)}</select></div>
      <div id="fields"></div>
      <p class="actions"><button type="submit" id="send"></button> <button type="button" class="secondary" id="stop" hidden>${t("submit.stop")}</button></p>
      <div id="upload" class="upload-progress" hidden><progress max="100" value="0" aria-label="${t("submit.upload")}"></progress> <span class="muted"></span></div>
      <p id="form-error" class="form-error" role="alert"></p></form>`);
    this.addListeners();
    this.drawFiles();
  }

  addListeners() {
    this.byId("files").addEventListener("change", (event) => {
      addToForm(event.target.files);
      event.target.value = ""; // so that the same file can be chosen again
    });
    this.byId("urls").addEventListener("input", (event) => ((this.urlText = event.target.value), this.update()));
    this.byId("type").addEventListener("change", (event) => {
      this.chosenType = event.target.value || null;
      this.drawFiles();
    });
    this.byId("submit").addEventListener("submit", (event) => (event.preventDefault(), this.submit()));
    this.byId("stop").addEventListener("click", () => this.uploadController?.abort());
    this.byId("file-list").addEventListener("click", (event) => {
      const index = event.target.closest("[data-remove]")?.dataset.remove;
      if (index === undefined) return;
      this.files.splice(Number(index), 1);
      this.drawFiles();
      (this.root.querySelector("[data-remove]") ?? this.byId("files")).focus();
    });
    this.byId("file-list").addEventListener("change", (event) => {
      this.files[Number(event.target.dataset.typeOf)].type = event.target.value || null;
      this.update();
    });
  }

  add({ files, urls }) {
    const types = this.jobTypes.map((jobType) => jobType.job_type);
    const detect = (file) => [typeOfFile(file.name, file.type)].find((type) => types.includes(type)) ?? null;
    this.files.push(...files.map((file) => ({ file, type: detect(file) })));
    if (urls.length) {
      this.urlText = [...this.urls, ...urls].join("\n");
      this.byId("urls").value = this.urlText;
    }
    this.drawFiles();
  }

  drawFiles() {
    render(this.byId("file-list"), this.files.map(({ file, type }, i) => html`<li><span>${file.name}</span> <span class="muted">${size(file.size)}</span>
      ${this.chosenType ? html`<span class="muted">${typeName(this.chosenType)}</span>` : this.typeSelect(file, type, i)}
      <button type="button" class="secondary" data-remove="${i}" aria-label="${t("submit.remove", { name: file.name })}">✕</button></li>`));
    this.update();
  }

  typeSelect(file, type, i) {
    return html`<select data-type-of="${i}" aria-label="${t("submit.type_of", { name: file.name })}">${!type && html`<option value="">${t("submit.unknown")}</option>`}
      ${Object.keys(UPLOAD_ROUTES).map((name) => html`<option value="${name}" ${flag("selected", name === type)}>${typeName(name)}</option>`)}</select>`;
  }

  /** Updates everything that depends on the files and URLs. Parameter forms stay as filled in while their type is in use. */
  update() {
    const types = this.usedTypes;
    for (const [type, section] of this.sections) {
      if (types.includes(type)) continue;
      section.remove();
      this.sections.delete(type);
    }
    for (const type of types) {
      if (this.sections.has(type)) continue;
      const section = element(html`<section class="type-options" aria-label="${typeName(type)}"><h2>${t("submit.options", { type: typeName(type) })}</h2>${drawFields(this.schema(type), this.values, this.templates, type)}</section>`);
      this.sections.set(type, section);
      this.byId("fields").append(section);
    }
    for (const section of this.sections.values()) section.querySelector("h2").hidden = types.length < 2;
    const count = this.files.length + this.urls.length;
    this.byId("batch-field").hidden = count < 2;
    this.byId("send").textContent = count > 1 ? t("submit.submit_all", { count: number(count) }) : t("submit.submit");
    this.byId("urls").rows = Math.min(8, Math.max(2, this.urlText.split("\n").length));
    const names = this.urlTypes.map(typeName);
    const counts = [...new Set(names)].map((name) => (names.length > 1 ? `${number(names.filter((other) => other === name).length)} × ${name}` : name));
    this.byId("url-types").textContent = counts.join(", ");
  }

  async submit() {
    const form = this.byId("submit");
    const button = this.byId("send");
    if (button.disabled) return;
    this.byId("form-error").textContent = "";
    clearErrors(form);
    try {
      const jobs = this.collectJobs();
      if (!jobs) return this.reveal(form.querySelector("[aria-invalid], .field-error"));
      button.disabled = true;
      await this.send(jobs);
    } catch (error) {
      if (error.name !== "AbortError") this.showApiError(error);
    } finally {
      button.disabled = false;
      for (const id of ["upload", "stop"]) if (this.byId(id)) this.byId(id).hidden = true;
    }
    return undefined;
  }

  reveal(node) {
    node?.scrollIntoView({ block: "center" });
    node?.focus?.();
  }

  /** The jobs to submit, each with its file if it has one; null if something is invalid, which is then shown. */
  collectJobs() {
    const values = new Map([...this.sections].map(([type, section]) => [type, readValues(section, this.schema(type))]));
    let valid = ![...values.values()].includes(null);
    const reject = (container, name, text) => ((valid = false), container ? showError(container, name, text) : (this.byId("form-error").textContent = text));
    const jobs = this.files.map(({ file, type }) => ({ file, job_type: this.chosenType ?? type }));
    for (const [i, { file, job_type: type }] of jobs.entries()) {
      if (!UPLOAD_ROUTES[type]) this.showFileError(i, type ? t("submit.no_uploads", { type: typeName(type) }) : t("submit.choose_type", { name: file.name })), (valid = false);
    }
    if (jobs.length > MAX_BATCH_FILES) reject(null, "", t("submit.too_many", { count: number(MAX_BATCH_FILES) }));
    for (const url of this.urls) {
      if (!isUrl(url)) reject(this.byId("sources"), "urls", t("submit.invalid_url", { text: url }));
      jobs.push({ job_type: this.chosenType ?? typeOfUrl(url), url });
    }
    if (!jobs.length) {
      const own = values.get(this.chosenType) ?? {};
      const needsSource = !this.chosenType || ("url" in (this.schema(this.chosenType).properties ?? {}) && !own.text && !own.video_url);
      if (needsSource) reject(this.byId("sources"), "urls", t("submit.empty"));
      jobs.push({ job_type: this.chosenType });
    }
    if (!valid) return null;
    return jobs.map(({ url, ...job }) => ({ ...job, parameters: { ...values.get(job.job_type), ...(url && { url }) } }));
  }

  showFileError(i, text) {
    this.byId("file-list").children[i]?.append(element(html`<small class="field-error">${text}</small>`));
  }

  async send(jobs) {
    if (jobs.length > 1) {
      const { batch_id } = await this.sendBatch(jobs);
      return this.leaveFor(t("submit.batch_submitted"), `#/batch/${batch_id}`);
    }
    const [{ file, ...job }] = jobs;
    const { job_id } = file ? await this.sendFile(file, job) : await post("/api/jobs", job);
    return this.leaveFor(t("submit.submitted"), `#/job/${job_id}`);
  }

  leaveFor(message, hash) {
    notify(message);
    // Do not pull users back who went to another view during the upload.
    if (!this.signal.aborted) location.hash = hash;
  }

  async sendBatch(jobs) {
    const batch_name = this.byId("batch_name").value.trim() || undefined;
    const files = jobs.filter((job) => job.file).map((job) => job.file);
    const payload = jobs.map(({ file, ...job }) => (file ? { ...job, file: files.indexOf(file) } : job));
    this.submittedTypes = payload.map((job) => job.job_type);
    if (!files.length) return post("/api/batches", { batch_name, jobs: payload });
    const form = new FormData();
    if (batch_name) form.append("batch_name", batch_name);
    form.append("jobs", JSON.stringify(payload));
    for (const file of files) form.append("file", file, file.name);
    return (await this.upload("/api/batches/from-files", form, files)).data;
  }

  sendFile(file, { job_type: type, parameters }) {
    const form = new FormData();
    this.submittedTypes = [type];
    // Fields go before the file: the service parses the form as a stream.
    for (const [name, value] of Object.entries(parameters)) form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    form.append("file", file, file.name);
    return this.upload(UPLOAD_ROUTES[type], form, [file]);
  }

  upload(path, form, files) {
    const total = files.reduce((sum, file) => sum + file.size, 0);
    const [bar, text] = this.byId("upload").children;
    this.byId("upload").hidden = this.byId("stop").hidden = false;
    this.uploadController = new AbortController();
    return upload(path, form, (share) => {
      bar.value = share * 100;
      text.textContent = share < 1 ? t("submit.uploading", { percent: Math.floor(share * 100), sent: size(share * total), total: size(total) }) : t("submit.checking");
    }, this.uploadController.signal);
  }

  /** Shows an error of the service beside the field or file it is about. */
  showApiError(error) {
    const unplaced = (error.details?.problems ?? []).filter(({ field, problem }) => !this.showFieldError(field, problem));
    const message = errorMessage(error);
    const index = this.files.findIndex(({ file }) => message.startsWith(`${file.name}: `));
    if (index >= 0) this.showFileError(index, message.slice(this.files[index].file.name.length + 2));
    else if (unplaced.length || !error.details?.problems?.length) this.byId("form-error").textContent = message;
    this.reveal(this.root.querySelector("[aria-invalid], .field-error") ?? this.byId("form-error"));
  }

  showFieldError(path, problem) {
    const [, job, name] = /^(?:jobs\.(\d+)\.)?parameters\.(\w+)/.exec(path) ?? [];
    const section = this.sections.get(this.submittedTypes?.[Number(job ?? 0)] ?? this.chosenType ?? [...this.sections.keys()][0]);
    if (name === "url") return showError(this.byId("sources"), "urls", problem);
    const isShown = section?.querySelector(`[name="${CSS.escape(name ?? "")}"][aria-invalid]`);
    return Boolean(isShown) || (name && section ? showError(section, name, problem) : false);
  }
}
