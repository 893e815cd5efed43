// Light or dark: the system's wish, unless the reader says otherwise. The choice is kept where the browser allows it.

import { make } from "./dom.js";

const THEMES = ["auto", "light", "dark"];
const KEY = "regard-theme";

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a frame without a place of its own
  }
}

function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // it holds for this page
  }
}

/** Whether the page is dark now. */
export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Call a view when light becomes dark, or the other way round: what is drawn on a canvas doesn't follow by itself. */
export function watchTheme(view) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", view);
  document.addEventListener("themechange", view);
}

function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("themechange"));
}

/** A button that goes from one to the next. */
export function themeSwitch() {
  let theme = THEMES.includes(remembered()) ? remembered() : "auto";
  const label = () => `Theme: ${theme}`;
  const button = make("button", { type: "button", class: "quiet", "data-role": "theme" }, label());
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    remember(theme);
    apply(theme);
    button.textContent = label();
  });
  apply(theme);
  return button;
}
