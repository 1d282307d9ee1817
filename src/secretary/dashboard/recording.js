// Sound and video: a player, the transcript with times to click, the slides.

import { fileAddress, key } from "./api.js";
import { clock, size } from "./format.js";
import { html, render } from "./html.js";
import { complain, doing } from "./notices.js";
import { t } from "./words.js";

/** With a key the whole file is fetched before it plays: more than this only who asks for it. */
const FETCHED_UNASKED = 30 * 1024 * 1024;

export function drawRecording(place, job, left) {
  new Listening(place, job, left).draw();
}

class Listening {
  constructor(place, job, left) {
    Object.assign(this, { place, left, results: job.results });
    this.segments = this.results.transcription?.segments ?? [];
    this.frames = this.results.frames ?? [];
    this.now = -1;
    this.frame = -1;
  }

  draw() {
    const { transcription, subtitles, metadata } = this.results;
    const moving = this.frames.length > 0 || this.results.recording?.media_type?.startsWith("video/");
    render(this.place, html`<div class="listening ${moving ? "moving" : ""}">${this.strip()}
      <div class="watch"><div class="player"><div id="player"></div><div id="playing" class="faint"></div></div>${chapters(metadata?.chapters)}</div>
      <div class="read">${this.segments.length ? html`<div class="bar"><p class="finding"><label class="unseen" for="find">${t("player.find")}</label><input type="search" id="find" placeholder="${t("player.find")}">
        <label class="check"><input type="checkbox" id="along" checked> ${t("player.along")}</label> <span class="faint" id="found" role="status"></span></p>
        <p class="actions">${downloads({ ...subtitles, txt: this.results.transcript_file })}</p></div>` : ""}
      <ol class="transcript" lang="${transcription?.target_language ?? transcription?.source_language ?? ""}">${this.segments.map((one, i) => html`<li data-line="${i}">
      <button type="button" class="link time" data-time="${one.start}" aria-label="${t("player.from", { time: clock(one.start) })}">${clock(one.start)}</button> <span data-time="${one.start}">${one.text}</span></li>`)}</ol></div></div>`);
    this.lines = [...this.place.querySelectorAll(".transcript li")];
    this.pictures = [...this.place.querySelectorAll(".frames li")];
    this.place.addEventListener("click", (event) => {
      const time = event.target.closest("[data-time]")?.dataset.time;
      if (time !== undefined && !String(getSelection())) this.jump(Number(time));
    });
    this.place.querySelector("#find")?.addEventListener("input", (event) => this.find(event.target.value));
    this.offer();
  }

  strip() {
    if (!this.frames.length) return "";
    return html`<ol class="frames" aria-label="${t("player.frames")}">${this.frames.map((frame) => html`<li><button type="button" class="link" data-time="${frame.time}" title="${frame.text ?? ""}">
      <img data-file="${frame.url}" alt="${t("player.frame", { time: clock(frame.time) })}"><span>${clock(frame.time)}</span></button></li>`)}</ol>`;
  }

  /** The recording that was kept; or why there is none, and a way to bring one's own. */
  offer() {
    const { recording } = this.results;
    const notes = this.place.querySelector("#playing");
    const moving = recording?.media_type?.startsWith("video/");
    if (!recording?.url) return this.ask(notes, recording?.not_kept);
    const load = async () => {
      render(notes, null);
      this.open(await fileAddress(recording.url), moving);
      return undefined;
    };
    if (!key.get() || recording.file_size <= FETCHED_UNASKED) return void load().catch(complain);
    render(notes, html`<button type="button" id="load">${t("player.load", { size: size(recording.file_size) })}</button>`);
    notes.querySelector("#load").addEventListener("click", (event) => doing(event.currentTarget, load));
    return undefined;
  }

  ask(notes, why) {
    render(notes, html`<p>${t(`player.not_kept.${why ?? "other"}`)}</p><label>${t("player.open")} <input type="file" id="media" accept="audio/*,video/*"></label>`);
    notes.querySelector("#media").addEventListener("change", (event) => {
      const [file] = event.target.files;
      if (!file) return;
      this.open(URL.createObjectURL(file), file.type.startsWith("video/"));
    });
  }

  open(address, moving) {
    const media = document.createElement(moving ? "video" : "audio");
    media.controls = true;
    media.preload = "metadata";
    media.src = address;
    media.setAttribute("aria-label", this.results.metadata?.title ?? t("player.recording"));
    media.addEventListener("timeupdate", () => this.mark(media.currentTime));
    media.addEventListener("seeked", () => this.mark(media.currentTime));
    media.addEventListener("error", () => {
      media.remove();
      this.ask(this.place.querySelector("#playing"), "not_played");
    });
    if (moving && this.results.subtitles?.vtt) this.caption(media);
    if (address.startsWith("blob:")) this.left.addEventListener("abort", () => URL.revokeObjectURL(address));
    this.place.querySelector("#player").replaceChildren(media);
    this.media = media;
    if (this.wanted !== undefined) this.jump(this.wanted);
  }

  async caption(media) {
    const track = document.createElement("track");
    Object.assign(track, { kind: "captions", label: t("mode.recording"), srclang: this.results.transcription?.source_language ?? "en" });
    track.src = await fileAddress(this.results.subtitles.vtt).catch(() => "");
    if (track.src) media.append(track);
  }

  jump(seconds) {
    this.wanted = seconds;
    if (this.media) {
      this.media.currentTime = seconds;
      this.media.play().catch(() => {});
    }
    this.mark(seconds, true);
  }

  /** The line that is being said, and the slide that is shown. */
  mark(seconds, asked = false) {
    const now = lastBefore(this.segments, "start", seconds);
    if (now !== this.now) {
      this.lines[this.now]?.removeAttribute("aria-current");
      this.lines[now]?.setAttribute("aria-current", "true");
      this.now = now;
      const along = this.place.querySelector("#along")?.checked && !this.media?.paused;
      if (asked || along) this.lines[now]?.scrollIntoView({ block: "nearest" });
    }
    const frame = lastBefore(this.frames, "time", seconds);
    if (frame === this.frame) return;
    this.pictures[this.frame]?.removeAttribute("aria-current");
    this.pictures[frame]?.setAttribute("aria-current", "true");
    this.frame = frame;
    const strip = this.place.querySelector(".frames");
    if (frame >= 0) strip.scrollTo({ left: this.pictures[frame].offsetLeft - strip.clientWidth / 2 + this.pictures[frame].clientWidth / 2 });
  }

  find(text) {
    const wanted = text.trim().toLowerCase();
    let places = 0;
    for (const [i, line] of this.lines.entries()) {
      const said = this.segments[i].text;
      const pieces = wanted ? cut(said, wanted) : [said];
      places += (pieces.length - 1) / 2;
      line.hidden = Boolean(wanted) && pieces.length === 1;
      if (wanted || line.querySelector("mark")) render(line.querySelector("span"), pieces.map((piece, n) => (n % 2 ? html`<mark>${piece}</mark>` : piece)));
    }
    this.place.querySelector("#found").textContent = wanted ? t("player.found", { n: places }) : "";
  }
}

/** What is before, between and behind the places where it is found, and those themselves. */
function cut(said, wanted) {
  const lower = said.toLowerCase();
  if (lower.length !== said.length) return lower.includes(wanted) ? ["", said, ""] : [said];
  const pieces = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    pieces.push(said.slice(from, at), said.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...pieces, said.slice(from)];
}

/** The last one that begins by then; -1 when none does. They are in order. */
function lastBefore(list, name, seconds) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][name] <= seconds + 0.01) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function chapters(list) {
  if (!list?.length) return "";
  return html`<p class="chapters">${list.map((one) => html`<button type="button" class="quiet" data-time="${one.start ?? 0}">${clock(one.start ?? 0)} ${one.title}</button> `)}</p>`;
}

function downloads(files) {
  return Object.entries(files).filter(([, address]) => address).map(([name, address]) =>
    html`<button type="button" class="quiet" data-save="${address}" aria-label="${t("player.save", { kind: name.toUpperCase() })}">↓ ${name.toUpperCase()}</button> `);
}
