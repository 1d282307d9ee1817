// The key that the service asks for. It is kept in this tab only.

import { get, key } from "./api.js";
import { html, render } from "./html.js";
import { reason } from "./notices.js";
import { t } from "./words.js";

export function askForKey(main, onward) {
  if (main.querySelector("#login")) return;
  const wrong = key.get() !== null;
  key.clear();
  render(main, html`<section class="narrow"><form id="login" class="card">
    <h1>${t("login.title")}</h1><p>${t("login.why")}</p>
    <label for="key">${t("login.key")}</label>
    <input id="key" name="key" type="password" autocomplete="current-password" required aria-describedby="login-error">
    <p id="login-error" class="wrong" role="alert">${wrong ? t("login.wrong") : ""}</p>
    <p><button type="submit">${t("login.in")}</button></p>
  </form></section>`);
  const form = main.querySelector("#login");
  form.elements.key.focus();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    key.set(form.elements.key.value.trim());
    try {
      await get("/api/job-types");
      form.remove();
      onward();
    } catch (error) {
      key.clear();
      const said = error.status === 401 ? t("login.wrong") : reason(error);
      main.querySelector("#login-error").textContent = said;
      form.elements.key.select();
    }
  });
}
