// Files and URLs that are dropped or pasted anywhere, and the job type they are for.

import { number } from "./format.js";
import { html, render } from "./html.js";
import { t } from "./i18n.js";

const EXTENSIONS = {
  pdf: "pdf",
  office: "docx xlsx pptx odt ods odp epub rtf html htm txt md csv doc xls ppt",
  imageocr: "png jpg jpeg gif webp tif tiff bmp heic heif jp2",
  audio: "mp3 wav flac ogg oga opus m4a aac aiff amr wma caf au",
  video: "mp4 webm avi mpeg mpg mkv mov ts flv wmv",
};
const TYPE_BY_EXTENSION = new Map(
  Object.entries(EXTENSIONS).flatMap(([type, extensions]) => extensions.split(" ").map((extension) => [extension, type])),
);
/** The upload route of each job type that accepts files. */
export const UPLOAD_ROUTES = {
  pdf: "/api/pdf/process",
  office: "/api/office/process",
  imageocr: "/api/imageocr/process",
  imageanalyzer: "/api/image-analyzer/process",
  audio: "/api/audio/process",
  video: "/api/video/process",
  transformer: "/api/transformer/text",
};
const URI_LIST = "text/uri-list";

/** The job type for a file, by its name or media type. The service checks the content itself. */
export function typeOfFile(name, mediaType = "") {
  const extension = /\.(\w+)$/.exec(name.toLowerCase().replace(/[?#].*$/, ""))?.[1];
  if (TYPE_BY_EXTENSION.has(extension)) return TYPE_BY_EXTENSION.get(extension);
  if (mediaType === "application/pdf") return "pdf";
  if (mediaType.startsWith("image/")) return "imageocr";
  if (mediaType.startsWith("audio/")) return "audio";
  if (mediaType.startsWith("video/")) return "video";
  return /officedocument|opendocument|msword|text\//.test(mediaType) ? "office" : null;
}

/** The job type for a URL: by its extension, a video for known sites, else the page of a talk. */
export function typeOfUrl(url) {
  if (/^https?:\/\/(www\.|m\.)?(youtube\.com|youtu\.be|vimeo\.com)\//i.test(url)) return "video";
  const type = typeOfFile(URL.canParse(url) ? new URL(url).pathname : url);
  return type ?? "session";
}

let pending = { files: [], urls: [] };

/** Returns what was added since the last call. */
export function takePending() {
  const taken = pending;
  pending = { files: [], urls: [] };
  return taken;
}

/** Adds files and URLs to the submit form, opening it if necessary. */
export function addToForm(files, urls = []) {
  pending = { files: [...files], urls };
  if (location.hash.startsWith("#/new")) window.dispatchEvent(new CustomEvent("filesadded"));
  else location.hash = "#/new";
}

export function enableDropzone() {
  const overlay = document.getElementById("dropzone");
  let depth = 0;
  const close = () => {
    depth = 0;
    overlay.hidden = true;
  };
  window.addEventListener("dragenter", (event) => {
    if (!isAccepted(event)) return;
    depth += 1;
    if (overlay.hidden) drawOverlay(overlay, event.dataTransfer.items);
    overlay.hidden = false;
  });
  window.addEventListener("dragover", (event) => isAccepted(event) && event.preventDefault());
  window.addEventListener("dragleave", () => (depth -= 1) <= 0 && close());
  window.addEventListener("drop", (event) => {
    if (!isAccepted(event)) return;
    event.preventDefault();
    const { files } = event.dataTransfer;
    addToForm(files, files.length ? [] : parseUrls(event.dataTransfer.getData(URI_LIST)));
    close();
  });
  window.addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea")) return;
    const urls = parseUrls(event.clipboardData.getData("text"));
    if (event.clipboardData.files.length) addToForm(event.clipboardData.files);
    else if (urls.length) addToForm([], urls);
  });
}

const isAccepted = (event) => ["Files", URI_LIST].some((type) => event.dataTransfer?.types.includes(type));

/** The URLs in a text that contains nothing else; otherwise none. */
function parseUrls(text) {
  const words = text.split(/\s+/).filter(Boolean);
  return words.every((word) => /^https?:\/\/\S+$/i.test(word)) ? words : [];
}

function drawOverlay(overlay, items) {
  const files = [...items].filter((item) => item.kind === "file");
  const types = new Set(files.map((item) => typeOfFile("", item.type)));
  types.delete(null);
  const names = [...types].map((type) => t(`type.${type}`, {}, type)).join(", ");
  const batch = files.length > 1 && html`<br>${t("dropzone.batch", { count: number(files.length) })}`;
  render(overlay, html`<p><strong>${t("dropzone.prompt")}</strong><br>${names ? t("dropzone.as_type", { type: names }) : t("dropzone.detected")}${batch}</p>`);
}
