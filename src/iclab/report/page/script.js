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

// Filters of the scoreboard.
const rows = [...document.querySelectorAll(".board tbody tr")];
const filters = [...document.querySelectorAll("[data-filter]")];

function matches(row, kind, value) {
  if (kind === "words") return value.toLowerCase().split(/\s+/).every((word) => row.dataset.search.includes(word));
  if (kind === "models") return row.dataset.models.split(" ").includes(value);
  return row.dataset[kind] === value;
}

function filter() {
  let shown = 0;
  for (const row of rows) {
    row.hidden = !filters.every(({ dataset, value }) => !value || matches(row, dataset.filter, value));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} claims`;
}

filters.forEach((control) => control.addEventListener("input", filter));
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
filter();

// Source code of models, each text stored once.
const code = read("code");
document.querySelectorAll("[data-code]").forEach((place) => { place.textContent = code[place.dataset.code]; });

if (innerWidth < 900) document.getElementById("contents").open = false;
