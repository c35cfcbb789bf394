// The conditions of paper M's theorems at the settings of the page: a mirror of iclab/theory/mamba_conditions.py, whose
// names, formulas and relations come with the page's content. Each entry gives the two sides.
"use strict";

const EPSILON = 0.01;
const over = (above, below) => (below === 0 ? Infinity : above / below);

function batchNeeded(s, gated) {
  const clean = 1 - s.pa, terms = [EPSILON ** -2, s.m1 / clean];
  if (gated) terms.push(over(s.beta ** -4 * s.v ** 2, (s.ka * clean) ** 2));
  return Math.max(...terms) * Math.log(1 / EPSILON);
}

const scaleAbove = (s) => over(s.v * s.beta * (1 - s.pa), s.pa * EPSILON);
const testScaleAbove = (s) => over(scaleAbove(s), s.ka * s.L);
const stepsClaimed = (s) => s.m1 / (s.eta * (1 - s.pa) * s.beta ** 2);

const SIDES = {
  "M-setting layers": () => [1, 1],
  "M-setting δ": (s) => [s.delta, 0.2],
  "M-setting η": (s) => [s.eta, 1],
  "M-setting M1 + M2": (s) => [s.m1 + s.m2, CONTENT.dimension],
  "M-setting β": (s) => [s.beta, 1],
  "M-setting K": (s) => [s.k, 0.5],
  "M-cond1 Condition 1": (s) => [Math.min(...s.counts), Math.max(1, s.pairs.length / s.m1)],
  "M-kernel complete graph": (s) => [s.edges, (s.m1 * (s.m1 - 1)) / 2],
  "M-velocity (C)": (s) => [s.pa * (s.ka * s.beta) ** 2 * s.m1, s.v * s.beta ** 2],
  "M-lem3 B": (s) => [s.b, Math.max(s.m1 / (1 - s.pa), (1 - s.pa) ** -2) * Math.log(1 / EPSILON)],
  "M-lem4 (31)": (s) => [s.l, Math.log(1 / EPSILON) / (1 - s.pa)],
  "M-thm1 (i)": (s) => [s.b, batchNeeded(s, true)],
  "M-thm3 (i)": (s) => [s.b, batchNeeded(s, false)],
  "M-thm1 (ii) lower": (s) => [s.ka, s.v * s.beta ** -4],
  "M-thm1 (ii) upper": (s) => [s.ka, scaleAbove(s)],
  "M-thm3 (ii)": (s) => [s.ka, scaleAbove(s)],
  "M-thm1 (iii) lower": (s) => [s.l, Math.log(s.m1) / (1 - s.pa)],
  "M-thm3 (iii)": (s) => [s.l, Math.log(s.m1) / (1 - s.pa)],
  "M-thm1 (iii) upper": (s) => [s.l, over(s.m1 ** s.ka, s.pa)],
  "M-thm1 (iv)": (s) => [s.t, stepsClaimed(s)],
  "M-thm3 (iv)": (s) => [s.t, stepsClaimed(s) / s.l],
  "M-cor1 D.4.1": (s) => [s.ka * s.pa, s.v * s.beta],
  "M-thm2 (7)": (s) => [s.kt, 1],
  "M-thm4 (7)": (s) => [s.kt, 1],
  "M-thm2 (a)": (s) => [s.L, 0],
  "M-thm4 (a)": (s) => [s.L, 0],
  "M-thm2 (b) printed": (s) => [s.kat, s.ka],
  "M-thm2 (b) restored": (s) => [s.kat, over(s.ka, s.L)],
  "M-thm2 (b) upper": (s) => [s.kat, testScaleAbove(s)],
  "M-thm4 (b)": (s) => [s.kat, testScaleAbove(s) * s.l],
  "M-thm2 (c)": (s) => [s.alpha, Math.min(1, s.pa)],
  "M-thm2 (d) lower": (s) => [s.l, over(Math.log(s.m1), 1 - s.alpha)],
  "M-thm2 (d) upper": (s) => [s.l, over(s.m1 ** s.ka, s.alpha)],
  "M-thm4 (c)": (s) => [s.alpha, 0.5],
  "M-thm4 (d)": (s) => [s.l, s.alpha >= 0.5 ? Infinity : Math.max(1 / (1 - s.alpha), s.alpha / (0.5 - s.alpha) ** 2) * Math.log(s.m1)],
};

// Every condition for one model: id, formula, both sides, whether it holds, and by which factor (null if a side is 0).
function checkConditions(state, key) {
  const pairs = taskPairs(state.tasks, state.m1), edges = new Set(pairs.map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`));
  const counts = [0, 1].flatMap((side) => Array.from({ length: state.m1 }, (_, j) => pairs.filter((pair) => pair[side] === j).length));
  const L = state.patterns === "paper" ? 0.3 : 1, eta = CONTENT.models[key].stepSize * state.eta;
  const s = { ...state, pairs, edges: edges.size, counts, L, eta };
  return CONTENT.conditions.filter(({ models }) => models.includes(key)).map(({ id, formula, relation }) => {
    const [left, right] = SIDES[id](s), room = Number.isFinite(right) ? 1e-12 * Math.max(Math.abs(right), 1) : 0;
    const holds = { "≥": left >= right - room, "≤": left <= right + room, ">": left > right + room, "<": left < right - room }[relation];
    const [above, below] = relation === "≥" || relation === ">" ? [left, right] : [right, left];
    return { id, formula, left, relation, right, holds, slack: left === 0 && right === 0 ? null : over(above, below) };
  });
}

function drawConditions(holder, words, state, key) {
  const covered = CONTENT.conditions.some(({ models }) => models.includes(key)), label = CONTENT.models[key].label;
  const checks = covered ? checkConditions(state, key) : [], missed = checks.filter(({ holds }) => !holds).length;
  words.textContent = covered ? `${label}: ${checks.length - missed} of ${checks.length} conditions hold. Constants that paper M does not state are 1, ε = ${EPSILON}, α is the slider's. Conditions are sufficient: one that fails refutes nothing.`
    : `Paper M's theorems are about Mamba and the linear Transformer, not about ${label}.`;
  holder.replaceChildren(...checks.map(({ id, formula, left, relation, right, holds, slack }) => {
    const row = element("tr"), number = (x) => (Number.isFinite(x) ? short(x) : "∞");
    row.append(element("th", { scope: "row" }, id), element("td", {}, formula), element("td", {}, `${number(left)} ${relation} ${number(right)}`),
      element("td", { class: holds ? "met" : "missed" }, holds ? "holds" : "fails"), element("td", {}, slack === null ? "–" : `× ${number(slack)}`));
    return row;
  }));
}
