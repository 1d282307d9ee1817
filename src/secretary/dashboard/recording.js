// Sound and video: a player, the transcript with times to click, the slides.

import { fileAddress } from "./api.js";
import { clock } from "./format.js";
import { flag, html, render } from "./html.js";
import { complain } from "./notices.js";
import { t } from "./words.js";

const MEDIA = /\.(mp3|wav|m4a|ogg|oga|opus|flac|aac|mp4|webm|mov|m4v)$/i;
const MOVING = /\.(mp4|webm|mov|m4v)$/i;

export function drawRecording(place, job, left) {
  const { transcription, frames = [], assets = [], metadata = {} } = job.results;
  const media = assets.find((address) => MEDIA.test(address));
  render(place, html`
    <div class="player"><div id="player"></div>
      <label class="faint" ${flag("hidden", Boolean(media))}>${t("player.open")} <input type="file" id="media" accept="audio/*,video/*"></label></div>
    ${frames.length ? html`<ol class="frames" aria-label="${t("player.frames")}">${frames.map((frame) => html`<li><button type="button" class="link" data-time="${frame.time}">
      <img data-file="${frame.url}" alt="${frame.text ?? t("player.frame", { time: clock(frame.time) })}"><span>${clock(frame.time)}</span></button></li>`)}</ol>` : ""}
    ${chapters(metadata.chapters)}
    <p><label class="unseen" for="find">${t("player.find")}</label><input type="search" id="find" placeholder="${t("player.find")}"> <span class="faint" id="found" role="status"></span></p>
    <ol class="transcript">${(transcription?.segments ?? []).map((one) => html`<li data-start="${one.start}" data-end="${one.end}">
      <button type="button" class="link time" data-time="${one.start}">${clock(one.start)}</button> <span>${one.text}</span></li>`)}</ol>`);
  const player = place.querySelector("#player");
  if (media) fileAddress(media).then((address) => open(player, address, MOVING.test(media)), complain);
  place.querySelector("#media").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (!file) return;
    const address = URL.createObjectURL(file);
    left.addEventListener("abort", () => URL.revokeObjectURL(address));
    open(player, address, file.type.startsWith("video/"));
  });
  place.addEventListener("click", (event) => {
    const time = event.target.closest("[data-time]")?.dataset.time;
    if (time !== undefined) jump(place, Number(time));
  });
  place.querySelector("#find").addEventListener("input", (event) => find(place, event.target.value));
}

function chapters(list) {
  if (!list?.length) return "";
  return html`<p class="chapters">${list.map((one) => html`<button type="button" class="quiet" data-time="${one.start ?? 0}">${clock(one.start ?? 0)} ${one.title}</button> `)}</p>`;
}

function open(player, address, moving) {
  const media = document.createElement(moving ? "video" : "audio");
  media.controls = true;
  media.src = address;
  media.addEventListener("timeupdate", () => mark(player.closest("#shown"), media.currentTime));
  player.replaceChildren(media);
}

function jump(place, seconds) {
  const media = place.querySelector("audio, video");
  if (media) {
    media.currentTime = seconds;
    media.play().catch(() => {});
  }
  mark(place, seconds)?.scrollIntoView({ block: "center" });
}

function mark(place, seconds) {
  const lines = [...(place?.querySelectorAll(".transcript li") ?? [])];
  const now = lines.findLast((line) => Number(line.dataset.start) <= seconds + 0.01);
  for (const line of lines) line.toggleAttribute("data-now", line === now);
  return now;
}

function find(place, text) {
  const wanted = text.trim().toLowerCase();
  const lines = [...place.querySelectorAll(".transcript li")];
  for (const line of lines) line.hidden = Boolean(wanted) && !line.textContent.toLowerCase().includes(wanted);
  const count = lines.filter((line) => !line.hidden).length;
  place.querySelector("#found").textContent = wanted ? t("player.found", { n: count }) : "";
}
