// One wish for many jobs: the chosen ones, or all that fit the filters. First it is told how many.

import { post } from "./api.js";
import { number } from "./format.js";
import { html, render } from "./html.js";
import { announce, complain, confirmed, doing, tell } from "./notices.js";
import { t } from "./words.js";

const ACTIONS = ["cancel", "restart", "archive", "delete"];
const PART = 200;
/** So many are archived or restarted without a question: both can be undone or repeated. */
const FEW = 50;

/** `fitting` are the filters where all that fit them are meant; `more` says whether other jobs fit than are shown. */
export function drawBulk(place, { ids, fitting, more, onFitting, onDone, left }) {
  place.hidden = !ids.length && !fitting;
  if (place.hidden) return;
  const text = fitting ? t("jobs.all_fitting") : t("jobs.chosen", { n: ids.length });
  render(place, html`<span id="count" role="status">${text}</span>
    ${more && html`<button type="button" class="quiet" id="fitting" aria-pressed="${String(Boolean(fitting))}">${t(fitting ? "jobs.only_chosen" : "jobs.all_that_fit")}</button>`}
    ${ACTIONS.map((name) => html`<button type="button" class="quiet" data-do="${name}">${t(`do.${name}`)}</button> `)}
    <button type="button" class="quiet" id="halt" hidden>${t("submit.stop")}</button>`);
  place.querySelector("#fitting")?.addEventListener("click", onFitting);
  for (const button of place.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => doing(button, async () => {
      const run = new Run(place, button.dataset.do, fitting ? { filters: fitting } : { ids }, left);
      if (await run.all()) await onDone();
    }));
  }
}

class Run {
  constructor(place, action, which, left) {
    Object.assign(this, { place, action, which, left });
    this.halted = false;
    place.querySelector("#halt").addEventListener("click", () => (this.halted = true));
  }

  say(text) {
    const count = this.place.querySelector("#count");
    if (count) count.textContent = text;
  }

  busy(on) {
    for (const button of this.place.querySelectorAll("[data-do], #fitting")) button.disabled = on;
    const halt = this.place.querySelector("#halt");
    if (halt) halt.hidden = !on;
  }

  /** Whether something was done. */
  async all() {
    const before = this.place.querySelector("#count").textContent;
    this.busy(true);
    try {
      const count = await this.preview();
      const sure = count && !this.halted && (await this.sure(count));
      if (!sure) {
        if (!count && !this.halted) complain({ message: t(`jobs.none_${this.action}`) });
        return false;
      }
      return await this.carryOut(count);
    } finally {
      this.busy(false);
      this.say(before);
    }
  }

  async preview() {
    let count = 0;
    this.say(t("jobs.counting", { count: number(0) }));
    await this.parts(true, (answer) => {
      this.asOf ??= answer.as_of;
      count += answer.count;
      this.say(t("jobs.counting", { count: number(count) }));
    });
    return count;
  }

  sure(count) {
    const chosen = this.which.ids?.length ?? count;
    if (["archive", "restart"].includes(this.action) && chosen <= FEW && this.which.ids) return true;
    const rest = chosen > count ? ` ${t("jobs.rest", { n: chosen - count, count: number(chosen - count) })}` : "";
    return confirmed(t(`jobs.sure_${this.action}`, { n: count, count: number(count) }) + rest, t(`do.${this.action}`));
  }

  async carryOut(count) {
    let done = 0;
    let refused = 0;
    let why = "";
    await this.parts(false, (answer) => {
      done += answer.count;
      refused += answer.refused;
      why ||= answer.refusals[0]?.message ?? "";
      this.say(t("jobs.doing", { done: number(done), count: number(count) }));
    });
    if (done) tell(t("jobs.done", { n: done, count: number(done) }));
    if (refused) complain({ message: t("jobs.refused", { n: refused, count: number(refused), why }) });
    announce(t("jobs.done", { n: done, count: number(done) }));
    return true;
  }

  /** Part by part, so that no request takes long; what came after the preview is left alone. */
  async parts(preview, onAnswer) {
    const ask = (more) => post("/api/jobs/bulk", { action: this.action, dry_run: preview, ...more });
    const goesOn = () => !this.halted && !this.left.aborted;
    const { ids, filters } = this.which;
    if (ids) {
      for (let at = 0; at < ids.length && goesOn(); at += PART) onAnswer(await ask({ job_ids: ids.slice(at, at + PART) }));
      return;
    }
    const filter = { ...filters, ...(!preview && { created_before: filters.created_before ?? this.asOf }) };
    let cursor;
    do {
      const answer = await ask({ filter, cursor });
      onAnswer(answer);
      cursor = answer.next_cursor;
    } while (cursor && goesOn());
  }
}
