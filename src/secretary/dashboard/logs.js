// The log of a job: what is new is added below, what is read stays where it is.

import { exact, number } from "./format.js";
import { flag, html, render } from "./html.js";
import { t } from "./words.js";

const LEVELS = ["debug", "info", "warning", "error"];
const CHOICE = "secretary.log-level";
const NEAR = 40;

const keyOf = (entry) => `${entry.timestamp} ${entry.level} ${entry.message}`;
const weight = (level) => (level === "critical" ? 3 : Math.max(0, LEVELS.indexOf(level)));

export class Log {
  /** `live`: more may come. */
  constructor(place, live) {
    this.entries = [];
    this.least = LEVELS.includes(sessionStorage.getItem(CHOICE)) ? sessionStorage.getItem(CHOICE) : "debug";
    render(place, html`<div class="bar logbar"><label>${t("logs.level")} <select id="least">${LEVELS.map((level) =>
      html`<option value="${level}" ${flag("selected", level === this.least)}>${t(`logs.from_${level}`)}</option>`)}</select></label>
      <label class="check" ${flag("hidden", !live)}><input type="checkbox" id="follow" ${flag("checked", live)}> ${t("logs.follow")}</label><span class="faint" id="count" role="status"></span></div>
      <ol class="log" tabindex="0" aria-label="${t("tab.logs")}"></ol><p class="empty" hidden>${t("logs.none")}</p>`);
    this.list = place.querySelector(".log");
    this.empty = place.querySelector(".empty");
    this.count = place.querySelector("#count");
    this.follow = place.querySelector("#follow");
    this.list.dataset.least = this.least;
    place.querySelector("#least").addEventListener("change", (event) => this.choose(event.target.value));
    this.follow.addEventListener("change", () => this.toEnd());
    // Who scrolls up wants to read; who comes back to the end wants to go on.
    this.list.addEventListener("scroll", () => (this.follow.checked = this.atEnd), { passive: true });
  }

  get atEnd() {
    return this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < NEAR;
  }

  choose(level) {
    this.least = this.list.dataset.least = level;
    sessionStorage.setItem(CHOICE, level);
    this.say();
    this.toEnd();
  }

  /** All entries there are; only those behind the last known one are drawn. */
  update(entries) {
    const last = this.entries.at(-1);
    const at = last ? entries.findLastIndex((entry) => keyOf(entry) === keyOf(last)) : -1;
    const following = this.follow.checked; // drawing scrolls too
    // A long log loses its beginning: then the lines are not those that stand here.
    const same = at >= 0 && at === this.entries.length - 1 && keyOf(entries[0]) === keyOf(this.entries[0]);
    if (!same) this.list.replaceChildren();
    const box = render(document.createElement("template"), entries.slice(same ? at + 1 : 0).map(line));
    this.list.append(box.content);
    this.entries = entries;
    this.say();
    this.follow.checked = following;
    this.toEnd();
  }

  say() {
    const shown = this.entries.filter((entry) => weight(entry.level) >= weight(this.least)).length;
    this.empty.hidden = shown > 0;
    this.list.hidden = shown === 0;
    const all = number(this.entries.length);
    this.count.textContent = shown === this.entries.length ? t("logs.count", { n: shown, all }) : t("logs.some", { shown: number(shown), all });
  }

  toEnd(always = false) {
    if (always || this.follow.checked) this.list.scrollTop = this.list.scrollHeight;
  }
}

function line(entry) {
  return html`<li class="level-${entry.level}"><time datetime="${entry.timestamp}" title="${exact(entry.timestamp)}">${new Date(entry.timestamp).toLocaleTimeString()}</time>
    <span class="level">${entry.level}</span> <span>${entry.message}</span></li>`;
}
