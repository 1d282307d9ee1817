// German or English: as the browser says, unless somebody chose.

import { de } from "./words_de.js";
import { en } from "./words_en.js";

const CHOICE = "secretary.language";
const WORDS = { de, en };

export function language() {
  const chosen = localStorage.getItem(CHOICE);
  if (chosen in WORDS) return chosen;
  const wanted = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return wanted.find((tag) => tag in WORDS) ?? "en";
}

export const choose = (name) => localStorage.setItem(CHOICE, name);

/** The text of that name with its `{holes}` filled; `n` chooses between `one | many`. */
export function t(name, values = {}, otherwise = name) {
  let text = WORDS[language()][name] ?? en[name] ?? otherwise;
  if ("n" in values && text.includes(" | ")) text = text.split(" | ")[values.n === 1 ? 0 : 1];
  return text.replace(/\{(\w+)\}/g, (hole, key) => values[key] ?? hole);
}
