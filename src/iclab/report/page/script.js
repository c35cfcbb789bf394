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
let printing = false; // on paper it is always light
const dark = () => !printing && (choice === "auto" ? system.matches : choice === "dark");
function applyTheme() {
  root.dataset.theme = dark() ? "dark" : "light";
  button.textContent = `Theme: ${names[choice]}`;
  document.querySelectorAll(".figure[data-drawn]").forEach(draw);
}
function print(now) {
  printing = now;
  applyTheme();
  places.filter((place) => !place.dataset.drawn).forEach(draw);
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
  const lines = legendLines(figure, width);
  layout.margin.b += 24 * lines + 8;
  layout.height = heightOf(figure, width);
  layout.showlegend = lines > 0;
  layout.uirevision = id; // what the reader has hidden or zoomed into stays so
  return { data: figure.data, layout };
}
function legendLines(figure, width) {
  const entries = figure.data.filter((trace) => trace.showlegend !== false && trace.name).length;
  return Math.ceil((entries * 190) / Math.max(width, 300));
}
// A figure's place has its height from the start, so that links lead where they say.
const heightOf = (figure, width) => (width < narrow ? figure.narrow.height : figure.layout.height) + 24 * legendLines(figure, width);
const widthOf = (place) => Math.max(place.clientWidth, figures[place.dataset.figure].least);
function keepRoom(place) {
  const { least } = figures[place.dataset.figure];
  if (least) place.parentElement.style.setProperty("--least", `${least}px`);
  place.style.minHeight = `${heightOf(figures[place.dataset.figure], widthOf(place))}px`;
}
function draw(place) {
  keepRoom(place);
  const { data, layout } = described(place.dataset.figure, widthOf(place));
  place.dataset.width = place.clientWidth < narrow ? "narrow" : "wide";
  Plotly.react(place, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], scrollZoom: false });
  if (!place.dataset.drawn) addToggles(place, data);
  place.dataset.drawn = "yes";
}
// What a click on the legend does, for a keyboard: boxes that show themselves when they are reached.
function addToggles(place, data) {
  const named = [...new Set(data.filter((trace) => trace.legendgroup).map((trace) => trace.legendgroup))];
  if (!named.length) return;
  const set = document.createElement("fieldset");
  set.className = "toggles";
  for (const name of named) {
    const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      const those = place.data.flatMap((trace, i) => (trace.legendgroup === name ? [i] : []));
      Plotly.restyle(place, { visible: box.checked ? true : "legendonly" }, those);
    });
    const label = document.createElement("label");
    label.append(box, ` ${name}`);
    set.append(label);
  }
  (place.closest(".wide") || place).after(set);
  const boxes = [...set.querySelectorAll("input")];
  place.on("plotly_restyle", () => boxes.forEach((box, i) => {
    box.checked = place.data.some((trace) => trace.legendgroup === named[i] && trace.visible !== "legendonly");
  }));
}
const places = [...document.querySelectorAll(".figure")];
places.forEach(keepRoom);
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); }
}, { rootMargin: "800px" });
places.forEach((place) => watch.observe(place));
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
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

// A prompt to step through: examples in a row, what each model makes of them, and the answer as it adds up.
function strip(model, prompt, view, read) {
  const many = prompt.tokens.length, left = 76, cell = 30, width = left + cell * many + 70;
  const rows = { chips: 38, attention: 94, gate: 154, vote: 184, sum: 232 }, tall = 258, parts = [];
  const most = (list) => Math.max(...list.map(Math.abs), 1e-12);
  const sums = []; view.vote.reduce((total, vote, i) => (sums[i] = total + vote), 0);
  const scale = { attention: 28 / most(view.attention), gate: 28 / most(view.gate), vote: 18 / most(view.vote), sum: 20 / most(sums) };
  const text = (x, y, words, kind = "", anchor = "middle") => parts.push(`<text x="${x}" y="${y}" class="${kind}" text-anchor="${anchor}">${safe(words)}</text>`);
  text(0, 14, model.name, "head", "start");
  for (const [row, name] of [["chips", "examples"], ["attention", "attention"], ["gate", "gate"], ["vote", "vote"], ["sum", "sum"]]) text(0, rows[row], name, "quiet", "start");
  for (const row of ["attention", "gate", "vote", "sum"]) parts.push(`<line class="axis" x1="${left}" x2="${left + cell * many}" y1="${rows[row]}" y2="${rows[row]}"/>`);
  prompt.tokens.forEach((token, i) => {
    const x = left + cell * i, middle = x + cell / 2, bars = [];
    const bar = (kind, base, both) => {
      const size = view[kind][i] * scale[kind];
      bars.push(`<rect x="${x + 7}" width="${cell - 14}" y="${Math.min(base, base - size)}" height="${Math.abs(size)}" fill="${safe(model.colour)}" opacity="${both ? 0.95 : 0.6}"/>`);
    };
    bar("attention", rows.attention); bar("gate", rows.gate); bar("vote", rows.vote, true);
    const ring = token.same ? `fill="${safe(model.colour)}"` : `fill="none" stroke="currentColor" stroke-width="1.3"`;
    const sign = token.label > 0 ? "+" : "−";
    parts.push(`<g class="${i < read ? "" : "unread"}">${token.outlier ? `<rect class="out" x="${x + 1}" width="${cell - 2}" y="24" height="${tall - 28}"/>` : ""}<circle cx="${middle}" cy="34" r="7" ${ring}/><text x="${middle}" y="56" text-anchor="middle"${token.label !== token.true_label ? ' font-weight="700"' : ""}>${sign}${token.label !== token.true_label ? "!" : ""}</text>${bars.join("")}</g>`);
    if (i === read - 1) parts.push(`<rect class="now" x="${x + 1}" width="${cell - 2}" y="24" height="${tall - 28}" rx="3"/>`);
  });
  const line = sums.slice(0, read).map((sum, i) => `${left + cell * (i + 0.5)},${rows.sum - sum * scale.sum}`).join(" ");
  if (read > 1) parts.push(`<polyline class="run" points="${line}"/>`);
  const end = left + cell * many + 8, answer = read ? sums[read - 1] : 0;
  text(end, 38, `query: ${prompt.target > 0 ? "+" : "−"}`, "head", "start");
  text(end, rows.sum + 4, `${answer > 0 ? "+" : answer < 0 ? "−" : ""}${Math.abs(answer).toFixed(2)}`, "head", "start");
  text(end, rows.sum - 14, answer * prompt.target > 0 ? "right" : answer ? "wrong" : "", "quiet", "start");
  return `<svg class="strip" viewBox="0 0 ${width} ${tall}" role="img" aria-label="${safe(model.name)}: sum ${answer.toFixed(2)}">${parts.join("")}</svg>`;
}
const safe = (words) => String(words).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
const told = (value) => value.toPrecision(3).replace("-", "−");
function step(place, data) {
  const part = (name) => place.querySelector(name);
  const [which, when, where] = [part(".which"), part(".when"), part(".where")];
  let timer = null;
  which.replaceChildren(...data.prompts.map((prompt, i) => new Option(prompt.name, i)));
  when.max = data.steps.length - 1; when.value = when.max;
  where.max = data.prompts[0].tokens.length; where.value = where.max;
  function show() {
    const prompt = data.prompts[which.value], read = +where.value;
    when.nextElementSibling.textContent = data.steps[when.value];
    when.setAttribute("aria-valuetext", `after step ${data.steps[when.value]}`);
    where.nextElementSibling.textContent = `${read} of ${prompt.tokens.length}`;
    const views = data.models.map((model) => model.views[which.value][when.value]);
    part(".strips").innerHTML = data.models.map((model, m) => strip(model, prompt, views[m], read)).join("");
    const token = prompt.tokens[read - 1];
    const facts = token ? `Example ${read}: ${token.outlier ? "an outlier" : "clean"}, ${token.same ? "with the query's pattern" : "with the other pattern"}, shows ${token.label > 0 ? "+1" : "−1"}${token.label !== token.true_label ? ", which is wrong" : ""}. ` : "Nothing read yet. ";
    const said = token ? data.models.map((model, m) => `${model.name}: attention ${told(views[m].attention[read - 1])}, gate ${told(views[m].gate[read - 1])}, vote ${told(views[m].vote[read - 1])}.`).join(" ") : "";
    part(".telling").textContent = `${facts}${said} After training step ${data.steps[when.value]} the whole prompt is answered ${data.models.map((model, m) => `${told(views[m].output)} by ${model.name}`).join(" and ")}; right is ${prompt.target > 0 ? "+" : "−"}.`;
  }
  const move = (by) => { where.value = +where.value + by; show(); };
  const stop = () => { clearInterval(timer); timer = null; part(".play").textContent = "Play"; part(".telling").ariaLive = "polite"; };
  part(".back").addEventListener("click", () => { stop(); move(-1); });
  part(".on").addEventListener("click", () => { stop(); move(1); });
  part(".play").addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (where.value === where.max) { where.value = 0; show(); }
    part(".play").textContent = "Stop";
    part(".telling").ariaLive = "off"; // too fast to be read out
    timer = setInterval(() => { move(1); if (where.value === where.max) stop(); }, 450);
  });
  [which, when, where].forEach((one) => one.addEventListener("input", () => { stop(); show(); }));
  show();
}
const steppers = read("steppers");
document.querySelectorAll("[data-stepper]").forEach((place) => step(place, steppers[place.dataset.stepper]));

if (innerWidth < 900) document.getElementById("contents").open = false;
filter();
applyTheme();
