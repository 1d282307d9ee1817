// Files of a job: URLs for tags and players, downloads, lazily loaded images.

import { apiKey, request } from "./api.js";

/** A URL for <img> and players. With an API key the file is fetched first: tags cannot send the key. */
export async function fileUrl(path) {
  if (!apiKey.get()) return path;
  return URL.createObjectURL(await (await request(path)).blob());
}

/** The route that returns a text file as JSON. */
export const textUrl = (path) => path.replace(/^\/api\/files\/(?!text\/)/, "/api/files/text/");

export async function download(path, name) {
  const link = document.createElement("a");
  link.href = await fileUrl(path);
  link.download = name;
  link.click();
  if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** The decoded last segment of a path. */
export function baseName(path) {
  const name = path.split("/").pop();
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Loads each `img[data-file]` when it comes near the viewport. */
export function lazyLoadImages(root, signal) {
  const urls = [];
  whenNearViewport(root.querySelectorAll("img[data-file]"), signal, "400px", (image) => {
    fileUrl(image.dataset.file).then(
      (url) => {
        urls.push(url);
        image.src = url;
      },
      () => image.replaceWith(document.createTextNode(image.alt)),
    );
  });
  signal.addEventListener("abort", () => {
    for (const url of urls) if (url.startsWith("blob:")) URL.revokeObjectURL(url);
  });
}

/** Calls `act` once for each element when it comes within `margin` of the viewport. */
export function whenNearViewport(elements, signal, margin, act) {
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      act(target);
    }
  }, { rootMargin: margin });
  for (const element of elements) observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
}
