// A new job: files, URLs, or neither; the form is that of the job type.

import { get, post, upload } from "./api.js";
import { handOver, taken } from "./drop.js";
import { number, size } from "./format.js";
import { drawFields, valuesOf } from "./forms.js";
import { flag, html, render } from "./html.js";
import { UPLOADS, typeOf, typeOfUrl } from "./kinds.js";
import { tell } from "./notices.js";
import { t } from "./words.js";

const USUAL = ["pdf", "office", "imageocr", "audio", "video", "transformer", "session"];

export async function show(root, { query, left, shown }) {
  const [{ job_types: types }, { templates }, again] = await Promise.all([
    get("/api/job-types", { signal: left }),
    get("/api/templates", { signal: left }).catch(() => ({ templates: [] })),
    query.get("again") ? get(`/api/jobs/${encodeURIComponent(query.get("again"))}`, { signal: left }) : null,
  ]);
  const page = new Page(root, types, templates, again, query.get("type"));
  page.draw();
  shown();
  page.take(taken());
  const handed = () => page.take(taken());
  window.addEventListener("handed", handed, { signal: left });
}

class Page {
  constructor(root, types, templates, again, type) {
    Object.assign(this, { root, types, templates });
    this.files = [];
    this.values = again ? flat(again.parameters) : {};
    this.urls = this.values.url ?? "";
    this.type = again?.job_type ?? type ?? null;
    this.fixed = Boolean(this.type);
    this.lost = again?.parameters.file_source?.name ?? null;
  }

  get schema() {
    return this.types.find((one) => one.job_type === this.type)?.parameters ?? { properties: {} };
  }

  draw() {
    const names = this.types.map((one) => one.job_type);
    const sorted = [...USUAL.filter((name) => names.includes(name)), ...names.filter((name) => !USUAL.includes(name))];
    render(this.root, html`<h1>${t("submit.title")}</h1><form id="submit" class="submit">
      ${this.lost && html`<p class="card calm">${t("submit.file_again", { name: this.lost })}</p>`}
      <div class="card zone" id="zone"><p><label class="button quiet" for="files">${t("submit.choose")}</label>
        <input type="file" id="files" multiple class="unseen"> <span class="faint">${t("submit.drop")}</span></p>
        <ul id="chosen" class="chosen"></ul>
        <label for="urls">${t("submit.urls")}</label>
        <textarea id="urls" rows="2" placeholder="https://example.org/report.pdf" spellcheck="false">${this.urls}</textarea></div>
      <div class="field"><label for="type">${t("submit.type")}</label><select id="type">
        <option value="">${t("submit.by_file")}</option>${sorted.map((name) => html`<option value="${name}" ${flag("selected", name === this.type && this.fixed)}>${t(`type.${name}`, {}, name)}</option>`)}</select></div>
      <div id="fields"></div>
      <p class="actions"><button type="submit" id="send"></button> <span id="sent" role="status"></span></p>
      <p id="wrong" class="wrong" role="alert"></p></form>`);
    const find = (id) => this.root.querySelector(`#${id}`);
    find("files").addEventListener("change", (event) => handOver(event.target.files));
    find("urls").addEventListener("input", (event) => ((this.urls = event.target.value), this.guess()));
    find("type").addEventListener("change", (event) => {
      this.fixed = Boolean(event.target.value);
      this.type = event.target.value || null;
      this.guess();
    });
    find("submit").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    find("chosen").addEventListener("click", (event) => {
      const at = event.target.closest("[data-drop]")?.dataset.drop;
      if (at !== undefined) this.files.splice(Number(at), 1);
      this.drawFiles();
    });
    this.guess(true);
  }

  take({ files, url }) {
    this.files.push(...files);
    if (url) {
      this.urls = [this.urls, url].filter(Boolean).join("\n");
      this.root.querySelector("#urls").value = this.urls;
    }
    this.drawFiles();
  }

  drawFiles() {
    render(this.root.querySelector("#chosen"), this.files.map((file, i) => html`<li><span>${file.name}</span> <span class="faint">${size(file.size)} · ${this.label(file.name, file.type)}</span>
      <button type="button" class="quiet" data-drop="${i}" aria-label="${t("submit.remove", { name: file.name })}">✕</button></li>`));
    this.guess();
  }

  label(name, media) {
    const type = this.fixed ? this.type : typeOf(name, media);
    return type ? t(`type.${type}`, {}, type) : t("submit.unknown");
  }

  get addresses() {
    return this.urls.split(/\s+/).filter(Boolean);
  }

  /** Which type it will be; the form is drawn anew only when that changes. */
  guess(force = false) {
    const before = this.type;
    if (!this.fixed) {
      const [file] = this.files;
      const [url] = this.addresses;
      this.type = file ? typeOf(file.name, file.type) : url ? typeOfUrl(url) : null;
    }
    if (force || before !== this.type || this.drawn !== this.type) {
      this.drawn = this.type;
      const place = this.root.querySelector("#fields");
      render(place, this.type ? drawFields(this.schema, this.values, this.templates) : null);
    }
    const count = this.files.length + this.addresses.length;
    this.root.querySelector("#send").textContent = count > 1 ? t("submit.send_all", { count: number(count) }) : t("submit.send");
  }

  async submit() {
    const wrong = this.root.querySelector("#wrong");
    const button = this.root.querySelector("#send");
    wrong.textContent = "";
    try {
      const form = this.root.querySelector("#submit");
      const values = this.type ? valuesOf(form, this.schema) : {};
      const needs = "url" in (this.schema.properties ?? {}) && !values.text && !values.video_url;
      if (!this.files.length && !this.addresses.length && (needs || !this.type)) throw new Error(t("submit.nothing"));
      button.disabled = true;
      await this.send(values);
    } catch (error) {
      wrong.textContent = error.code === "OFFLINE" ? t("error.offline") : error.message;
      wrong.scrollIntoView({ block: "nearest" });
    } finally {
      button.disabled = false;
      const sent = this.root.querySelector("#sent");
      if (sent) sent.textContent = "";
    }
  }

  async send(values) {
    const jobs = this.addresses.map((url) => ({ job_type: this.fixed ? this.type : typeOfUrl(url), parameters: { ...values, url } }));
    if (!this.files.length && !jobs.length) jobs.push({ job_type: this.type, parameters: values });
    const made = [];
    for (const [i, file] of [...this.files].entries()) {
      made.push(await this.sendFile(file, values, i));
      this.files.splice(this.files.indexOf(file), 1);
    }
    if (jobs.length > 1) {
      const { batch_id } = await post("/api/batches", { jobs });
      tell(t("submit.batch_made"));
      location.hash = `#/batch/${batch_id}`;
      return;
    }
    if (jobs.length) made.push((await post("/api/jobs", jobs[0])).job_id);
    tell(t("submit.made", { n: made.length }));
    location.hash = made.length === 1 ? `#/job/${made[0]}` : "#/jobs";
  }

  async sendFile(file, values, i) {
    const type = this.fixed ? this.type : typeOf(file.name, file.type);
    const path = UPLOADS[type];
    if (!path) throw new Error(type ? t("submit.no_file", { type }) : t("submit.which", { name: file.name }));
    const form = new FormData();
    // Fields before the file: the service reads a form as it comes.
    const own = type === this.type ? values : {};
    for (const [name, value] of Object.entries(own)) form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    form.append("file", file, file.name);
    const sent = this.root.querySelector("#sent");
    const { job_id } = await upload(path, form, (part) => {
      sent.textContent = t("submit.sending", { name: file.name, i: i + 1, percent: Math.round(part * 100) });
    });
    return job_id;
  }
}

function flat(parameters) {
  const { extra, file_source: _, ...top } = parameters;
  return { ...(extra && typeof extra === "object" ? extra : {}), ...top };
}
