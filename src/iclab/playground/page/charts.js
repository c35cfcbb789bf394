// Small charts in SVG. All text goes through `make` and `element`, which set it as text, never as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text;
  return node;
}

function element(name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text;
  return node;
}

const short = (x) => (x === 0 ? "0" : Math.abs(x) < 0.01 || Math.abs(x) >= 1e4 ? x.toExponential(0) : String(Number(x.toPrecision(3))));

function ticks({ low, high, log }, wanted = 5) {
  if (log) return [1, 10, 100, 1000].filter((x) => x >= low && x <= high);
  const raw = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw), out = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) out.push(Number(x.toPrecision(12)));
  return out;
}

// Lines with bands: series = [{colour, dash, points: [[x, y, low, high], …]}]. A mark is a value of x, with its name.
function drawLines(holder, { series, x, y, words, mark }) {
  const W = 440, H = 260, left = 48, right = 16, top = 16, bottom = 40;
  const along = (v) => (x.log ? Math.log(v / x.low) / Math.log(x.high / x.low || Math.E) : (v - x.low) / (x.high - x.low || 1));
  const sx = (v) => left + along(v) * (W - left - right);
  const sy = (v) => H - bottom - ((Math.max(y.low, Math.min(v, y.high)) - y.low) / (y.high - y.low || 1)) * (H - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words });
  for (const v of ticks(y)) {
    svg.append(make("line", { x1: left, x2: W - right, y1: sy(v), y2: sy(v), class: "grid" }),
      make("text", { x: left - 6, y: sy(v) + 4, "text-anchor": "end" }, short(v)));
  }
  for (const v of ticks(x)) svg.append(make("text", { x: sx(v), y: H - bottom + 17, "text-anchor": "middle" }, short(v)));
  svg.append(make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle", class: "axis" }, x.name));
  if (mark) {
    svg.append(make("line", { x1: sx(mark.at), x2: sx(mark.at), y1: top, y2: H - bottom, class: "mark" }),
      make("text", { x: sx(mark.at), y: top - 4, "text-anchor": "middle" }, mark.name));
  }
  for (const { colour, dash, points } of series) {
    if (!points.length) continue;
    if (points[0].length > 2) {
      const edge = points.map((p) => `${sx(p[0])},${sy(p[3])}`).concat(points.slice().reverse().map((p) => `${sx(p[0])},${sy(p[2])}`));
      svg.append(make("polygon", { points: edge.join(" "), fill: colour, opacity: 0.18 }));
    }
    svg.append(make("polyline", { points: points.map((p) => `${sx(p[0])},${sy(p[1])}`).join(" "), fill: "none", stroke: colour,
      "stroke-width": dash ? 1.3 : 2, "stroke-dasharray": dash || "none", "stroke-linejoin": "round" }));
  }
  holder.replaceChildren(svg);
}

// A square map of numbers; blue above 0, orange below.
function heatMap(values, words) {
  const n = values.length, cell = 200 / n, top = Math.max(1e-12, ...values.flat().map(Math.abs));
  const svg = make("svg", { viewBox: "0 0 224 222", role: "img", "aria-label": words, class: "heat" });
  values.forEach((row, i) => {
    svg.append(make("text", { x: 18, y: i * cell + cell / 2 + 4, "text-anchor": "end" }, `µ${i + 1}`),
      make("text", { x: 22 + i * cell + cell / 2, y: 216, "text-anchor": "middle" }, `µ${i + 1}`));
    row.forEach((value, j) => {
      const box = make("rect", { x: 22 + j * cell, y: i * cell, width: cell - 1, height: cell - 1,
        fill: value < 0 ? "#D55E00" : "#0072B2", "fill-opacity": Math.sqrt(Math.abs(value) / top) });
      box.append(make("title", {}, `µ${i + 1}, µ${j + 1}: ${value.toPrecision(3)}`));
      svg.append(box);
    });
  });
  return svg;
}
