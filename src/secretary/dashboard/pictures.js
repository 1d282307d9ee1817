// Pictures are fetched when they come near the window, with the key if there is one.

import { fileAddress } from "./api.js";

export function showPictures(root, left) {
  const made = [];
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      fileAddress(target.dataset.file).then(
        (address) => {
          made.push(address);
          target.src = address;
        },
        () => target.replaceWith(document.createTextNode(target.alt)),
      );
    }
  }, { rootMargin: "400px" });
  for (const image of root.querySelectorAll("img[data-file]")) observer.observe(image);
  left.addEventListener("abort", () => {
    observer.disconnect();
    for (const address of made) if (address.startsWith("blob:")) URL.revokeObjectURL(address);
  });
}
