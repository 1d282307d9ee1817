// Bulk actions on the selected jobs or all that match the filters. They are counted first, then changed in chunks.

import { post } from "./api.js";
import { number } from "./format.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";
import { announce, confirm, notify, notifyError, runAction } from "./notifications.js";

const ACTIONS = ["cancel", "restart", "archive", "delete"];
const CHUNK_SIZE = 200;
/** Up to this many jobs are archived or restarted without confirmation: both can be undone or repeated. */
const MAX_UNCONFIRMED = 50;

/** `matching` are the filters if all matching jobs are selected; `hasMore` tells whether jobs match that are not shown. */
export function drawBulkActions(container, { ids, matching, hasMore, onToggleMatching, onDone, signal }) {
  container.hidden = !ids.length && !matching;
  if (container.hidden) return;
  const text = matching ? t("jobs.matching_selected") : t("jobs.selected", { n: ids.length });
  render(container, html`<span id="count" role="status">${text}</span>
    ${hasMore && html`<button type="button" class="secondary" id="matching" aria-pressed="${String(Boolean(matching))}">${t(matching ? "jobs.select_page" : "jobs.select_matching")}</button>`}
    ${ACTIONS.map((name) => html`<button type="button" class="secondary" data-action="${name}">${t(`action.${name}`)}</button> `)}
    <button type="button" class="secondary" id="stop" hidden>${t("submit.stop")}</button>`);
  container.querySelector("#matching")?.addEventListener("click", onToggleMatching);
  for (const button of container.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => runAction(button, async () => {
      const action = new BulkAction(container, button.dataset.action, matching ? { filters: matching } : { ids }, signal);
      if (await action.run()) await onDone();
    }));
  }
}

class BulkAction {
  constructor(container, name, selection, signal) {
    Object.assign(this, { container, name, selection, signal });
    this.stopped = false;
    container.querySelector("#stop").addEventListener("click", () => (this.stopped = true));
  }

  /** Returns whether anything was changed. */
  async run() {
    const before = this.container.querySelector("#count").textContent;
    this.setBusy(true);
    try {
      const count = await this.countJobs();
      const confirmed = count && !this.stopped && (await this.confirm(count));
      if (!confirmed) {
        if (!count && !this.stopped) notifyError({ message: t(`jobs.none_${this.name}`) });
        return false;
      }
      await this.apply(count);
      return true;
    } finally {
      this.setBusy(false);
      this.setText(before);
    }
  }

  setText(text) {
    const count = this.container.querySelector("#count");
    if (count) count.textContent = text;
  }

  setBusy(busy) {
    for (const button of this.container.querySelectorAll("[data-action], #matching")) button.disabled = busy;
    const stop = this.container.querySelector("#stop");
    if (stop) stop.hidden = !busy;
  }

  async countJobs() {
    let count = 0;
    this.setText(t("jobs.counting", { count: number(0) }));
    await this.forEachChunk({ dryRun: true }, (response) => {
      this.asOf ??= response.as_of;
      count += response.count;
      this.setText(t("jobs.counting", { count: number(count) }));
    });
    return count;
  }

  confirm(count) {
    const selected = this.selection.ids?.length ?? count;
    if (["archive", "restart"].includes(this.name) && selected <= MAX_UNCONFIRMED && this.selection.ids) return true;
    const excluded = selected - count;
    const note = excluded > 0 ? ` ${t("jobs.not_applicable", { n: excluded, count: number(excluded) })}` : "";
    return confirm(t(`jobs.confirm_${this.name}`, { n: count, count: number(count) }) + note, t(`action.${this.name}`));
  }

  async apply(count) {
    let done = 0;
    let failed = 0;
    let reason = "";
    await this.forEachChunk({ dryRun: false }, (response) => {
      done += response.count;
      failed += response.refused;
      reason ||= response.refusals[0]?.message ?? "";
      this.setText(t("jobs.progress", { done: number(done), count: number(count) }));
    });
    const message = t(`jobs.done_${this.name}`, { n: done, count: number(done) });
    if (done) notify(message);
    if (failed) notifyError({ message: t("jobs.failed_for", { n: failed, count: number(failed), reason }) });
    announce(message);
  }

  /** Sends the action in chunks, so that no request takes long. Jobs created after the count are left out. */
  async forEachChunk({ dryRun }, onResponse) {
    const request = (target) => post("/api/jobs/bulk", { action: this.name, dry_run: dryRun, ...target });
    const goesOn = () => !this.stopped && !this.signal.aborted;
    const { ids, filters } = this.selection;
    if (ids) {
      for (let start = 0; start < ids.length && goesOn(); start += CHUNK_SIZE) onResponse(await request({ job_ids: ids.slice(start, start + CHUNK_SIZE) }));
      return;
    }
    const filter = { ...filters, ...(!dryRun && { created_before: filters.created_before ?? this.asOf }) };
    let cursor;
    do {
      const response = await request({ filter, cursor });
      onResponse(response);
      cursor = response.next_cursor;
    } while (cursor && goesOn());
  }
}
