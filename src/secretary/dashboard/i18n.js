// Internationalization: German or English, from the browser's languages unless the user chose one.

import { de, hintsDe } from "./i18n_de.js";
import { en } from "./i18n_en.js";

const STORAGE_KEY = "secretary.language";
const TEXTS = { de, en };

export function language() {
  const chosen = localStorage.getItem(STORAGE_KEY);
  if (chosen in TEXTS) return chosen;
  const preferred = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return preferred.find((tag) => tag in TEXTS) ?? "en";
}

export const setLanguage = (name) => localStorage.setItem(STORAGE_KEY, name);

/** The text for a key with its `{placeholders}` filled in; `n` selects between `one | many`. */
export function t(key, values = {}, fallback = key) {
  let text = TEXTS[language()][key] ?? en[key] ?? fallback;
  if ("n" in values && text.includes(" | ")) text = text.split(" | ")[values.n === 1 ? 0 : 1];
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => values[name] ?? placeholder);
}

/** The description of a JSON Schema field in the current language. */
export const translateHint = (description) => (language() === "de" ? hintsDe[description] ?? description : description);
