// Figures: Vega draws each one when it comes near the viewport, so that the page opens fast.
const figures = {};
const NARROW = 640; // below this width, in pixels, panels stand one below the other
const LEAST = 460; // the same in a card, which has room for small panels only
const SPACING = 24; // between panels
const AXIS = 56; // first guess of the width of a vertical axis; fit() corrects it
const LIMITS = [120, 680]; // the width of a panel without axes
const NEEDED = 196; // the width of the narrowest panel, with its axis

const OPTIONS = { actions: false, defaultStyle: false, renderer: "svg", tooltip: { disableDefaultStyle: true } };

// Colours that depend on the theme become variables of the style sheet.
const VARIABLES = {
  "#222222": "var(--ink)", "#000000": "var(--ink)", "#ffffff": "var(--paper)",
  "#440154": "var(--violet)", "#414487": "var(--indigo)",
};

// Vega writes plain text: κ_a' becomes κₐ′, as far as there are such signs.
const LOWERED = { a: "ₐ", i: "ᵢ", j: "ⱼ", k: "ₖ", tr: "ₜᵣ", ts: "ₜₛ", 1: "₁", 2: "₂" };
const lowered = (text) => text
  .replace(/(?<![A-Za-z])([A-Za-zµα-ω])_(a|i|j|k|tr|ts)(?![A-Za-z])/g, (_, letter, below) => letter + LOWERED[below])
  .replace(/(?<![A-Za-z])([MS])([12])(?![0-9])/g, (_, letter, below) => letter + LOWERED[below])
  .replace(/(?<=[α-ωₐ])'/g, "′")
  .replace(/\^l\b/g, "ˡ");
function prepared(key, value) {
  if (typeof value !== "string") return value;
  return Object.hasOwn(VARIABLES, value) ? VARIABLES[value] : lowered(value);
}

// The page holds all figures as compressed JSON.
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
  const json = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  return JSON.parse(await json.text(), prepared);
}

const places = [...document.querySelectorAll(".figure")];
const figureAt = (place) => figures[place.dataset.figure];
const panelsOf = (figure) => (figure.columns ? figure.spec.concat : []); // none if another library made it
const drawable = (place) => !place.closest("details:not([open])");
const roomOf = (place) => place.parentElement.clientWidth;
const columnsAt = (place) => {
  const figure = figureAt(place);
  const room = roomOf(place);
  if (room < (place.closest(".card") ? LEAST : NARROW)) return 1;
  let columns = Math.max(1, Math.min(figure.columns, panelsOf(figure).length));
  while (columns % 2 === 0 && columns * (NEEDED + SPACING) - SPACING > room) columns /= 2; // so that rows stay whole
  return columns;
};

function config() {
  const font = getComputedStyle(document.documentElement).getPropertyValue("--ui");
  const [ink, faint, line] = ["var(--ink)", "var(--faint)", "var(--line)"];
  return {
    aria: false, // the place of the figure has a label
    background: "transparent",
    font,
    view: { stroke: null },
    axis: {
      domainColor: faint, tickColor: faint, labelColor: ink, titleColor: ink, gridColor: line,
      labelFontSize: 11.5, titleFontSize: 12.5, titleFontWeight: "normal", tickSize: 4,
    },
    axisQuantitative: { labelOverlap: "greedy", labelSeparation: 4 },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink, subtitleColor: ink, fontSize: 13, anchor: "start" },
    text: { color: ink, fontSize: 11.5 },
  };
}

// The figure as Vega-Lite, for a number of columns. A chart without panels is used as it is.
function specOf(figure, columns, width) {
  if (!panelsOf(figure).length) return figure.spec;
  return {
    ...figure.spec,
    columns,
    spacing: SPACING,
    align: "each",
    padding: { left: 0, right: 2, top: 2, bottom: 2 },
    params: figure.spec.params.map((param) => (param.name === "hidden" ? { ...param, value: [...figure.hidden] } : param)),
    concat: panelsOf(figure).map((panel) => ({ ...panel, width })),
  };
}

function limited(figure, width) {
  const [least, most] = figure.least ? [figure.least, Infinity] : LIMITS;
  return Math.floor(Math.min(most, Math.max(least, width)));
}

async function draw(place) {
  const figure = figureAt(place);
  const columns = columnsAt(place);
  const width = limited(figure, (roomOf(place) - SPACING * (columns - 1)) / columns - AXIS);
  place.dataset.columns = columns;
  figure.label ??= place.getAttribute("aria-label");
  try {
    const { view } = await vegaEmbed(place, specOf(figure, columns, width), { ...OPTIONS, config: config() });
    if (+place.dataset.columns !== columns) { view.finalize(); return; } // the window has changed meanwhile
    figure.view?.finalize();
    figure.view = view;
    place.classList.remove("problem");
    place.setAttribute("role", "img"); // Vega takes both away
    place.setAttribute("aria-label", figure.label);
    await fit(place);
  } catch (error) {
    place.textContent = `The figure cannot be drawn. ${error}`;
    place.classList.add("problem");
  }
}

// Give the panels all the room there is. The width of the axes is known only after drawing.
async function fit(place) {
  const figure = figureAt(place);
  place.dataset.room = roomOf(place);
  if (!panelsOf(figure).length) return;
  const signal = +place.dataset.columns === 1 ? "width" : "childWidth";
  for (let round = 0; round < 3; round += 1) {
    const spare = roomOf(place) - 1 - place.querySelector("svg").width.baseVal.value;
    const before = figure.view.signal(signal);
    const width = limited(figure, before + spare / place.dataset.columns);
    if (width === before) return;
    await figure.view.signal(signal, width).resize().runAsync();
  }
}

// The height of a figure before it is drawn, so that links lead to the right place.
function heightOf(figure, columns) {
  const panels = panelsOf(figure);
  let height = 4;
  for (let first = 0; first < panels.length; first += columns) {
    const row = panels.slice(first, first + columns);
    height += Math.max(...row.map((panel) => panel.height + (panel.title ? 22 : 4) + belowOf(panel)));
    height += first ? SPACING : 0;
  }
  return height;
}

// The height of a panel's horizontal axis: its labels and its title.
function belowOf(panel) {
  const layers = panel.layer.flatMap((layer) => layer.layer ?? [layer]);
  const x = layers.map((layer) => layer.encoding?.x).find((channel) => channel?.axis) ?? {};
  const names = x.type === "nominal" ? (x.scale?.domain ?? []) : [];
  const longest = Math.max(0, ...names.map((name) => name.length));
  const labels = names.length && x.axis.labelAngle ? Math.min(x.axis.labelLimit ?? 180, 6.2 * longest) : 17;
  return labels + 4 + (x.title ? 19 : 0);
}

function reserve(place) {
  place.style.minHeight = `${heightOf(figureAt(place), columnsAt(place))}px`;
}

// Legend: a checkbox per series shows and hides it in all panels.
const SHAPES = {
  circle: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  square: (r) => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  diamond: (r) => `M${-r},0L0,${-r}L${r},0L0,${r}Z`,
  "triangle-up": (r) => `M0,${-0.87 * r}L${-r},${0.87 * r}L${r},${0.87 * r}Z`,
  "triangle-down": (r) => `M0,${0.87 * r}L${-r},${-0.87 * r}L${r},${-0.87 * r}Z`,
  cross: (r) => `M${-0.7 * r},${-0.7 * r}L${0.7 * r},${0.7 * r}M${0.7 * r},${-0.7 * r}L${-0.7 * r},${0.7 * r}`,
  stroke: (r) => `M${-r},0H${r}`,
};

function sample({ colour, dash, mark, line, hollow, width, size, shade }) {
  const stroke = `stroke="${safe(colour)}"`;
  const parts = [];
  if (line) parts.push(`<line x1="-14" x2="14" ${stroke} stroke-width="${width}" stroke-dasharray="${dash.join(" ")}"/>`);
  if (mark) {
    const area = mark === "square" && !line; // stands for bands or bars
    const opacity = area ? `fill-opacity="${shade ?? 1}" stroke-opacity="${shade ?? 1}"` : "";
    const path = (SHAPES[mark] ?? SHAPES.circle)(Math.max(Math.sqrt(size) / 2, 3));
    const fill = hollow ? "var(--paper)" : safe(colour);
    parts.push(`<path d="${path}" fill="${fill}" ${stroke} stroke-width="1.3" ${opacity}/>`);
  }
  return `<svg class="sample" viewBox="-15 -7 30 14" width="30" height="14" aria-hidden="true">${parts.join("")}</svg>`;
}

function addLegend(place) {
  const figure = figureAt(place);
  if (!figure.legend.length) return;
  const list = document.createElement("fieldset");
  list.className = "legend";
  list.innerHTML = `<legend>Series of ${safe(place.dataset.figure)}</legend>`;
  const switches = !place.closest(".card"); // the whole figure has them
  for (const series of figure.legend) {
    const label = document.createElement(switches ? "label" : "span");
    label.innerHTML = `${switches ? '<input type="checkbox" checked>' : ""}${sample(series)}<span>${safe(series.name)}</span>`;
    if (switches) label.firstChild.addEventListener("change", (event) => {
      figure.hidden[event.target.checked ? "delete" : "add"](series.name);
      figure.view?.signal("hidden", [...figure.hidden]).runAsync();
    });
    list.append(label);
  }
  place.parentElement.after(list);
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !target.dataset.columns) draw(target);
  }
}, { rootMargin: "800px" });

const ready = unpack("figures").then((found) => {
  for (const [id, figure] of Object.entries(found)) figures[id] = { ...figure, hidden: new Set(), view: null };
  places.forEach(addLegend);
  places.forEach(reserve);
  places.forEach((place) => near.observe(place));
});

// What stands below figures has moved when these get their room: lead the reader there again, unless she has moved on.
let led = performance.getEntriesByType("navigation")[0]?.type === "navigate"; // a page opened again keeps its place
addEventListener("hashchange", () => { led = true; });
["wheel", "touchmove", "keydown"].forEach((kind) => addEventListener(kind, () => { led = false; }, { passive: true }));
ready.then(() => {
  if (led) document.getElementById(decodeURI(location.hash.slice(1)))?.scrollIntoView();
});

addEventListener("beforeprint", () => places.filter((p) => drawable(p) && !p.dataset.columns).forEach(draw));

// A fold gives its figure room only when it opens.
document.querySelectorAll("details:has(.figure)").forEach((fold) => {
  fold.addEventListener("toggle", () => { if (fold.open) fold.querySelectorAll(".figure").forEach(reserve); });
});

addEventListener("resize", async () => {
  await ready;
  for (const place of places.filter(drawable)) {
    reserve(place);
    if (!place.dataset.columns) continue;
    if (+place.dataset.columns !== columnsAt(place)) draw(place);
    else if (figureAt(place).view && Math.abs(place.dataset.room - roomOf(place)) > 12) fit(place);
  }
});
