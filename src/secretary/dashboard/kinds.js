// Which job type a file is for, by its name; the service looks at the content.

const ENDINGS = {
  pdf: "pdf",
  office: "docx xlsx pptx odt ods odp epub rtf html htm txt md csv doc xls ppt",
  imageocr: "png jpg jpeg gif webp tif tiff bmp heic heif jp2",
  audio: "mp3 wav flac ogg oga opus m4a aac aiff amr wma caf au",
  video: "mp4 webm avi mpeg mpg mkv mov ts flv wmv",
};
const BY_ENDING = new Map(
  Object.entries(ENDINGS).flatMap(([type, names]) => names.split(" ").map((name) => [name, type])),
);
/** Where a file of a type is sent; all other types take none. */
export const UPLOADS = {
  pdf: "/api/pdf/process",
  office: "/api/office/process",
  imageocr: "/api/imageocr/process",
  audio: "/api/audio/process",
  video: "/api/video/process",
  transformer: "/api/transformer/text",
};

export function typeOf(name, media = "") {
  const ending = /\.(\w+)$/.exec(name.toLowerCase().replace(/[?#].*$/, ""))?.[1];
  if (BY_ENDING.has(ending)) return BY_ENDING.get(ending);
  if (media === "application/pdf") return "pdf";
  if (media.startsWith("image/")) return "imageocr";
  if (media.startsWith("audio/")) return "audio";
  if (media.startsWith("video/")) return "video";
  return /officedocument|opendocument|msword|text\//.test(media) ? "office" : null;
}

/** For a URL: what its ending says; a video site; else a page with a talk or a text. */
export function typeOfUrl(url) {
  if (/^https?:\/\/(www\.|m\.)?(youtube\.com|youtu\.be|vimeo\.com)\//i.test(url)) return "video";
  const type = typeOf(URL.canParse(url) ? new URL(url).pathname : url);
  return type ?? "session";
}
