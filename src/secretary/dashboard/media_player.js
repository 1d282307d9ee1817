// Audio and video: a player synchronized with the transcript and the slides.

import { apiKey } from "./api.js";
import { fileUrl } from "./files.js";
import { clock, size } from "./format.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";
import { notifyError, runAction } from "./notifications.js";

/** With an API key the whole file is fetched before it plays; larger ones only on request. */
const MAX_AUTOMATIC_DOWNLOAD = 30 * 1024 * 1024;

export function drawMediaPlayer(container, job, signal) {
  new MediaPlayer(container, job, signal).draw();
}

class MediaPlayer {
  constructor(container, job, signal) {
    Object.assign(this, { container, signal, results: job.results });
    this.segments = this.results.transcription?.segments ?? [];
    this.frames = this.results.frames ?? [];
    this.currentSegment = -1;
    this.currentFrame = -1;
  }

  draw() {
    const { transcription, subtitles, chapters, metadata } = this.results;
    const hasVideo = this.frames.length > 0 || this.results.recording?.media_type?.startsWith("video/");
    render(this.container, html`<div class="media ${hasVideo ? "has-video" : ""}">${this.frameStrip()}
      <div class="stage"><div class="player"><div id="player"></div><div id="player-note" class="muted"></div></div>${chapterButtons(chapters ?? metadata?.chapters)}</div>
      <div class="transcript-pane">${this.segments.length ? html`<div class="bar"><p class="transcript-search"><label class="visually-hidden" for="transcript-query">${t("player.search")}</label><input type="search" id="transcript-query" placeholder="${t("player.search")}">
        <label class="check"><input type="checkbox" id="auto-scroll" checked> ${t("player.auto_scroll")}</label> <span class="muted" id="matches" role="status"></span></p>
        <p class="actions">${downloadButtons({ ...subtitles, txt: this.results.transcript_file })}</p></div>` : ""}
      <ol class="transcript" lang="${transcription?.target_language ?? transcription?.source_language ?? ""}">${this.segments.map((segment) => html`<li>
      <button type="button" class="link time" data-time="${segment.start}" aria-label="${t("player.from", { time: clock(segment.start) })}">${clock(segment.start)}</button> <span data-time="${segment.start}">${segment.text}</span></li>`)}</ol></div></div>`);
    this.lines = [...this.container.querySelectorAll(".transcript li")];
    this.thumbnails = [...this.container.querySelectorAll(".frames li")];
    this.container.addEventListener("click", (event) => {
      const time = event.target.closest("[data-time]")?.dataset.time;
      if (time !== undefined && !String(getSelection())) this.seek(Number(time));
    });
    this.container.querySelector("#transcript-query")?.addEventListener("input", (event) => this.search(event.target.value));
    this.load();
  }

  frameStrip() {
    if (!this.frames.length) return "";
    return html`<ol class="frames" aria-label="${t("player.frames")}">${this.frames.map((frame) => html`<li><button type="button" class="link" data-time="${frame.time}" title="${frame.text ?? ""}">
      <img data-file="${frame.url}" alt="${t("player.frame", { time: clock(frame.time) })}"><span>${clock(frame.time)}</span></button></li>`)}</ol>`;
  }

  /** Opens the stored recording; without one, explains why and offers to play a local file. */
  load() {
    const { recording } = this.results;
    const note = this.container.querySelector("#player-note");
    if (!recording?.url) return this.askForFile(note, recording?.not_kept);
    const open = async () => {
      render(note, null);
      this.open(await fileUrl(recording.url), recording.media_type?.startsWith("video/"));
    };
    if (!apiKey.get() || recording.file_size <= MAX_AUTOMATIC_DOWNLOAD) return void open().catch(notifyError);
    render(note, html`<button type="button" id="load">${t("player.load", { size: size(recording.file_size) })}</button>`);
    note.querySelector("#load").addEventListener("click", (event) => runAction(event.currentTarget, open));
    return undefined;
  }

  askForFile(note, reason) {
    render(note, html`<p>${t(`player.not_kept.${reason ?? "other"}`)}</p><label>${t("player.open")} <input type="file" id="media" accept="audio/*,video/*"></label>`);
    note.querySelector("#media").addEventListener("change", (event) => {
      const [file] = event.target.files;
      if (!file) return;
      this.open(URL.createObjectURL(file), file.type.startsWith("video/"));
    });
  }

  open(url, isVideo) {
    const media = document.createElement(isVideo ? "video" : "audio");
    media.controls = true;
    media.preload = "metadata";
    media.src = url;
    media.setAttribute("aria-label", this.results.metadata?.title ?? t("player.recording"));
    media.addEventListener("timeupdate", () => this.highlight(media.currentTime));
    media.addEventListener("seeked", () => this.highlight(media.currentTime));
    media.addEventListener("error", () => {
      media.remove();
      this.askForFile(this.container.querySelector("#player-note"), "not_played");
    });
    if (isVideo && this.results.subtitles?.vtt) this.addCaptions(media);
    if (url.startsWith("blob:")) this.signal.addEventListener("abort", () => URL.revokeObjectURL(url));
    this.container.querySelector("#player").replaceChildren(media);
    this.media = media;
    if (this.requestedTime !== undefined) this.seek(this.requestedTime);
  }

  async addCaptions(media) {
    const track = document.createElement("track");
    Object.assign(track, { kind: "captions", label: t("mode.recording"), srclang: this.results.transcription?.source_language ?? "en" });
    track.src = await fileUrl(this.results.subtitles.vtt).catch(() => "");
    if (track.src) media.append(track);
  }

  seek(seconds) {
    this.requestedTime = seconds;
    if (this.media) {
      this.media.currentTime = seconds;
      this.media.play().catch(() => {});
    }
    this.highlight(seconds, { reveal: true });
  }

  /** Marks the line that is being spoken and the slide that is shown. */
  highlight(seconds, { reveal = false } = {}) {
    const segment = lastStarted(this.segments, "start", seconds);
    if (segment !== this.currentSegment) {
      setCurrent(this.lines, this.currentSegment, segment);
      this.currentSegment = segment;
      const autoScroll = this.container.querySelector("#auto-scroll")?.checked && !this.media?.paused;
      if (reveal || autoScroll) this.lines[segment]?.scrollIntoView({ block: "nearest" });
    }
    const frame = lastStarted(this.frames, "time", seconds);
    if (frame === this.currentFrame) return;
    setCurrent(this.thumbnails, this.currentFrame, frame);
    this.currentFrame = frame;
    const strip = this.container.querySelector(".frames");
    const thumbnail = this.thumbnails[frame];
    if (thumbnail) strip.scrollTo({ left: thumbnail.offsetLeft - strip.clientWidth / 2 + thumbnail.clientWidth / 2 });
  }

  /** Shows only the lines that contain the text, with the matches marked. */
  search(text) {
    const query = text.trim().toLowerCase();
    let matches = 0;
    for (const [i, line] of this.lines.entries()) {
      const segment = this.segments[i].text;
      const parts = query ? splitByMatches(segment, query) : [segment];
      matches += (parts.length - 1) / 2;
      line.hidden = Boolean(query) && parts.length === 1;
      if (query || line.querySelector("mark")) render(line.querySelector("span"), parts.map((part, n) => (n % 2 ? html`<mark>${part}</mark>` : part)));
    }
    this.container.querySelector("#matches").textContent = query ? t("player.matches", { n: matches }) : "";
  }
}

function setCurrent(items, before, after) {
  items[before]?.removeAttribute("aria-current");
  items[after]?.setAttribute("aria-current", "true");
}

/** Splits a text so that every second part is a match. */
function splitByMatches(text, query) {
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return lower.includes(query) ? ["", text, ""] : [text];
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + query.length));
    from = at + query.length;
  }
  return [...parts, text.slice(from)];
}

/** The index of the last item that has started by then, -1 if none has. Items are sorted. */
function lastStarted(items, startKey, seconds) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle][startKey] <= seconds + 0.01) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function chapterButtons(chapters) {
  if (!chapters?.length) return "";
  return html`<p class="chapters">${chapters.map((chapter) => html`<button type="button" class="secondary" data-time="${chapter.start ?? 0}">${clock(chapter.start ?? 0)} ${chapter.title}</button> `)}</p>`;
}

function downloadButtons(files) {
  return Object.entries(files).filter(([, path]) => path).map(([name, path]) =>
    html`<button type="button" class="secondary" data-download="${path}" aria-label="${t("player.download", { format: name.toUpperCase() })}">↓ ${name.toUpperCase()}</button> `);
}
