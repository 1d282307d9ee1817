// Files may be dropped anywhere; what is dropped waits here for the form.

import { html, render } from "./html.js";
import { typeOf } from "./kinds.js";
import { t } from "./words.js";

let waiting = { files: [], url: "" };

/** What was dropped or pasted, once. */
export function taken() {
  const found = waiting;
  waiting = { files: [], url: "" };
  return found;
}

export function handOver(files, url = "") {
  waiting = { files: [...files], url };
  if (location.hash.startsWith("#/new")) window.dispatchEvent(new CustomEvent("handed"));
  else location.hash = "#/new";
}

const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

function drawTarget(target, items) {
  const types = new Set([...items].filter((item) => item.kind === "file").map((item) => typeOf("", item.type)));
  types.delete(null);
  const known = [...types].map((name) => t(`type.${name}`, {}, name)).join(", ");
  render(target, html`<p><strong>${t("drop.here")}</strong><br>${known ? t("drop.as", { type: known }) : t("drop.any")}</p>`);
}

export function offerDrop() {
  const target = document.getElementById("drop");
  let depth = 0;
  const end = () => {
    depth = 0;
    target.hidden = true;
  };
  window.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    if (target.hidden) drawTarget(target, event.dataTransfer.items);
    target.hidden = false;
  });
  window.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  window.addEventListener("dragleave", () => (depth -= 1) <= 0 && end());
  window.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    handOver(event.dataTransfer.files);
    end();
  });
  window.addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea")) return;
    const text = event.clipboardData.getData("text").trim();
    if (event.clipboardData.files.length) handOver(event.clipboardData.files);
    else if (/^https?:\/\/\S+$/.test(text)) handOver([], text);
  });
}
