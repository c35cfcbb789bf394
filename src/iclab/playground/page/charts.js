// Small charts in SVG. All text goes through `make`, which sets it as text, never as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text;
  return node;
}

const short = (x) => (x === 0 ? "0" : Math.abs(x) < 0.01 || Math.abs(x) >= 1e4 ? x.toExponential(0) : String(Number(x.toPrecision(3))));

function ticks(low, high, wanted = 5) {
  const raw = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw), out = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) out.push(Number(x.toPrecision(12)));
  return out;
}

// Lines with bands: series = [{name, colour, dash, points: [[x, y, low, high], …]}].
function drawLines(holder, { series, x, y, words, mark }) {
  const W = 440, H = 260, left = 48, right = 12, top = 12, bottom = 40;
  const sx = (v) => left + ((v - x.low) / (x.high - x.low || 1)) * (W - left - right);
  const sy = (v) => H - bottom - ((Math.min(v, y.high) - y.low) / (y.high - y.low || 1)) * (H - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words });
  for (const v of ticks(y.low, y.high)) {
    svg.append(make("line", { x1: left, x2: W - right, y1: sy(v), y2: sy(v), class: "grid" }),
      make("text", { x: left - 6, y: sy(v) + 4, "text-anchor": "end" }, short(v)));
  }
  for (const v of ticks(x.low, x.high)) svg.append(make("text", { x: sx(v), y: H - bottom + 17, "text-anchor": "middle" }, short(v)));
  svg.append(make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle", class: "axis" }, x.name));
  if (mark !== undefined) svg.append(make("line", { x1: sx(mark), x2: sx(mark), y1: top, y2: H - bottom, class: "mark" }));
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

// L = M1 (diag(q) − A), the Laplacian of the graph of training tasks: iclab.theory.graph.
function laplacian(pairs, n) {
  const a = Array.from({ length: n }, () => new Float64Array(n));
  for (const [i, j] of pairs) {
    a[i][j] += 0.5 / pairs.length;
    a[j][i] += 0.5 / pairs.length;
  }
  return a.map((row, i) => Array.from(row, (value, j) => n * ((i === j ? row.reduce((x, y) => x + y, 0) : 0) - value)));
}

const product = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));

// exp of a symmetric matrix, by scaling and squaring.
function expm(matrix) {
  const n = matrix.length, size = Math.max(...matrix.map((row) => row.reduce((s, x) => s + Math.abs(x), 0)));
  const halvings = Math.max(0, Math.ceil(Math.log2(size || 1)) + 4), scale = 2 ** -halvings;
  let out = matrix.map((_, i) => Array.from({ length: n }, (_, j) => Number(i === j))), term = out;
  for (let k = 1; k <= 8; k++) {
    term = product(term, matrix.map((row) => row.map((x) => (x * scale) / k)));
    out = out.map((row, i) => row.map((x, j) => x + term[i][j]));
  }
  for (let k = 0; k < halvings; k++) out = product(out, out);
  return out;
}

// The τ for which δ² exp(2τL) is nearest to a kernel, by golden section on 0 … 4.
function fitTime(kernel, L, delta) {
  const law = (time) => expm(L.map((row) => row.map((x) => 2 * time * x))).map((row) => row.map((x) => x * delta * delta));
  const entries = kernel.flat(), miss = (time) => law(time).flat().reduce((sum, x, i) => sum + (x - entries[i]) ** 2, 0);
  let low = 0, high = 4;
  const golden = (Math.sqrt(5) - 1) / 2;
  for (let k = 0; k < 30; k++) {
    const a = high - golden * (high - low), b = low + golden * (high - low);
    if (miss(a) < miss(b)) high = b;
    else low = a;
  }
  const time = (low + high) / 2, mean = entries.reduce((s, x) => s + x, 0) / entries.length;
  return { time, kernel: law(time), r2: 1 - miss(time) / (entries.reduce((s, x) => s + (x - mean) ** 2, 0) || 1) };
}
