// Files may be dropped anywhere; what is dropped waits here for the form.

import { number } from "./format.js";
import { html, render } from "./html.js";
import { typeOf } from "./kinds.js";
import { t } from "./words.js";

let waiting = { files: [], urls: [] };

/** What was dropped or pasted, once. */
export function taken() {
  const found = waiting;
  waiting = { files: [], urls: [] };
  return found;
}

export function handOver(files, urls = []) {
  waiting = { files: [...files], urls };
  if (location.hash.startsWith("#/new")) window.dispatchEvent(new CustomEvent("handed"));
  else location.hash = "#/new";
}

const LINKS = "text/uri-list";
const carriesWork = (event) => ["Files", LINKS].some((type) => event.dataTransfer?.types.includes(type));

/** The addresses in a text that has nothing else; else none. */
function addressesIn(text) {
  const lines = text.split(/\s+/).filter(Boolean);
  return lines.every((line) => /^https?:\/\/\S+$/i.test(line)) ? lines : [];
}

function drawTarget(target, items) {
  const files = [...items].filter((item) => item.kind === "file");
  const types = new Set(files.map((item) => typeOf("", item.type)));
  types.delete(null);
  const known = [...types].map((name) => t(`type.${name}`, {}, name)).join(", ");
  const many = files.length > 1 && html`<br>${t("drop.batch", { count: number(files.length) })}`;
  render(target, html`<p><strong>${t("drop.here")}</strong><br>${known ? t("drop.as", { type: known }) : t("drop.any")}${many}</p>`);
}

export function offerDrop() {
  const target = document.getElementById("drop");
  let depth = 0;
  const end = () => {
    depth = 0;
    target.hidden = true;
  };
  window.addEventListener("dragenter", (event) => {
    if (!carriesWork(event)) return;
    depth += 1;
    if (target.hidden) drawTarget(target, event.dataTransfer.items);
    target.hidden = false;
  });
  window.addEventListener("dragover", (event) => carriesWork(event) && event.preventDefault());
  window.addEventListener("dragleave", () => (depth -= 1) <= 0 && end());
  window.addEventListener("drop", (event) => {
    if (!carriesWork(event)) return;
    event.preventDefault();
    const { files } = event.dataTransfer;
    handOver(files, files.length ? [] : addressesIn(event.dataTransfer.getData(LINKS)));
    end();
  });
  window.addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea")) return;
    const text = event.clipboardData.getData("text").trim();
    if (event.clipboardData.files.length) handOver(event.clipboardData.files);
    else if (addressesIn(text).length) handOver([], addressesIn(text));
  });
}
