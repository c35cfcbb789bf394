"use strict";
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const safe = (words) => String(words).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

// Theme: the system's, unless the reader chooses one. Figures take their colours from the style sheet.
const system = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
let theme = "system";

function applyTheme() {
  const dark = theme === "system" ? system.matches : theme === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  themeButton.textContent = `Theme: ${theme}`;
}

themeButton.addEventListener("click", () => {
  theme = { system: "light", light: "dark", dark: "system" }[theme];
  applyTheme();
});
system.addEventListener("change", applyTheme);
applyTheme();

// Source code of models, each text stored once.
const code = read("code");
document.querySelectorAll("[data-code]").forEach((place) => { place.textContent = code[place.dataset.code]; });

if (innerWidth < 900) document.getElementById("contents").open = false;
