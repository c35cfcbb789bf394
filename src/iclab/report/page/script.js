"use strict";
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const figures = read("figures");
const code = read("code");
const root = document.documentElement;
const narrow = 640; // pixels below which panels stand one below the other

// Themes: as the system says, unless the reader says otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
const names = { auto: "as the system", light: "light", dark: "dark" };
let choice = "auto";
const dark = () => (choice === "auto" ? system.matches : choice === "dark");
function applyTheme() {
  root.dataset.theme = dark() ? "dark" : "light";
  button.textContent = `Theme: ${names[choice]}`;
  document.querySelectorAll(".figure[data-drawn]").forEach(draw);
}
button.addEventListener("click", () => {
  choice = { auto: "light", light: "dark", dark: "auto" }[choice];
  applyTheme();
});
system.addEventListener("change", applyTheme);

// Figures are drawn when they come near: the page opens at once.
function described(id, width) {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(name).trim();
  let text = JSON.stringify(figures[id]);
  if (dark()) text = text.replaceAll('"#222222"', `"${colour("--ink")}"`).replaceAll('"#ffffff"', `"${colour("--paper")}"`);
  const figure = JSON.parse(text);
  const axis = { gridcolor: colour("--line"), linecolor: colour("--faint"), tickcolor: colour("--faint"), ticks: "outside", automargin: true };
  const layout = {
    ...figure.layout,
    font: { family: colour("--ui"), size: 12.5, color: colour("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 58, r: 16, t: 34, b: 48 },
    legend: { orientation: "h", y: -0.02, yref: "container", yanchor: "bottom", x: 0, xref: "paper", font: { size: 12 } },
    hoverlabel: { font: { family: colour("--ui"), size: 12.5 } },
    dragmode: false,
  };
  for (const key of Object.keys(layout)) if (/^[xy]axis/.test(key)) layout[key] = { ...axis, showgrid: key[0] === "y", ...layout[key] };
  if (width < narrow) {
    for (const [key, value] of Object.entries(figure.narrow)) {
      const [name, inner] = key.split(".");
      if (inner) layout[name] = { ...layout[name], [inner]: value, showticklabels: true };
      else layout[name] = value;
    }
  }
  const entries = figure.data.filter((trace) => trace.showlegend !== false && trace.name).length;
  const lines = Math.ceil((entries * 190) / Math.max(width, 300));
  layout.margin.b += 24 * lines + 8;
  layout.height += 24 * lines;
  layout.showlegend = entries > 0;
  return { data: figure.data, layout };
}
function draw(place) {
  const { data, layout } = described(place.dataset.figure, place.clientWidth);
  place.dataset.width = place.clientWidth < narrow ? "narrow" : "wide";
  Plotly.react(place, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], scrollZoom: false });
  place.dataset.drawn = "yes";
}
const places = [...document.querySelectorAll(".figure")];
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); }
}, { rootMargin: "800px" });
places.forEach((place) => watch.observe(place));
addEventListener("beforeprint", () => places.forEach((place) => place.dataset.drawn || draw(place)));
addEventListener("resize", () => {
  for (const place of places) {
    const now = place.clientWidth < narrow ? "narrow" : "wide";
    if (place.dataset.drawn && place.dataset.width !== now) draw(place);
  }
});

// The scoreboard's filters.
const rows = [...document.querySelectorAll(".board tbody tr")];
const filters = [...document.querySelectorAll("[data-filter]")];
function filter() {
  let shown = 0;
  for (const row of rows) {
    const fits = filters.every(({ dataset, value }) => {
      if (!value) return true;
      if (dataset.filter === "words") return row.textContent.toLowerCase().includes(value.toLowerCase());
      if (dataset.filter === "models") return row.dataset.models.split(" ").includes(value);
      return row.dataset[dataset.filter] === value;
    });
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} claims`;
}
filters.forEach((one) => one.addEventListener("input", filter));
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
document.querySelectorAll("[data-code]").forEach((place) => { place.textContent = code[place.dataset.code]; });

if (innerWidth < 900) document.getElementById("contents").open = false;
filter();
applyTheme();
