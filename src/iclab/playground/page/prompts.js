// The sampler, as in iclab/prompts/prompt_kernels.py: prompts are drawn in blocks of LANES.
"use strict";

const LANES = 16;
const PAPER_MIXTURES = [[0.7, 0.6, -0.4], [0.4, 0.7, -0.6], [-0.7, 0.5, 0.5]];

// The tasks of a description: "all", "ring:U" or pairs such as "0-1,1-2,2-0"; sorted, as iclab.prompts.tasks.
function taskPairs(text, relevant) {
  let pairs = [];
  if (text === "all") {
    for (let a = 0; a < relevant; a++) for (let b = 0; b < relevant; b++) if (a !== b) pairs.push([a, b]);
  } else if (text.startsWith("ring:")) {
    const steps = Number(text.slice(5));
    for (let a = 0; a < relevant; a++) for (let k = 1; k <= steps; k++) pairs.push([a, (a + k) % relevant]);
  } else {
    pairs = text.split(",").map((pair) => pair.split("-").map(Number));
  }
  return pairs.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
}

// A distribution in numbers. `d` has: dimension, relevant, irrelevant, outlier, norm, length, scale (K), fraction,
// strength (κ_a), labels, placement, patterns ("training" or "paper"), tasks; and, if given, count (exactly so many).
function makeDrawing(d) {
  const mixed = d.patterns === "paper", count = d.relevant + d.irrelevant + d.outlier;
  return {
    length: d.length,
    pairs: taskPairs(d.tasks, d.relevant),
    irrelevantRow: d.relevant,
    irrelevantRows: d.irrelevant,
    outlierRow: mixed ? count : d.relevant + d.irrelevant,
    outlierRows: mixed ? PAPER_MIXTURES.length : Math.max(d.outlier, 1),
    rows: count + (mixed ? PAPER_MIXTURES.length : 0),
    rank: count,
    threshold: roundEven(d.fraction * 2 ** 32),
    exact: d.count === undefined || d.count === null ? -1 : d.count,
    placement: ["random", "farthest", "closest"].indexOf(d.placement),
    labels: ["random", "flip", "target"].indexOf(d.labels === "worst" ? "flip" : d.labels),
    scale: Math.fround(d.scale),
    strength: Math.fround(d.strength),
  };
}

// Python rounds halves to the even number.
function roundEven(x) {
  const below = Math.floor(x), rest = x - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

function makeBlock(length) {
  const size = (length + 1) * LANES, words = () => new Uint32Array(size);
  const whole = () => new Int32Array(size), real = () => new Float32Array(size);
  return {
    w0: words(), w1: words(), w2: words(), w3: words(),
    flag: whole(), relevant: whole(), irrelevant: whole(), outlier: whole(),
    kappa: real(), strength: real(), label: real(), truth: real(),
    target: new Float32Array(LANES), plus: new Int32Array(LANES), minus: new Int32Array(LANES),
  };
}

// Draw prompts first … first + LANES − 1 of a step into a block.
function draw(d, p, seed, stream, step, first) {
  fillWords(d, p, seed, stream, step, first);
  readWords(d, p);
}

function fillWords(d, p, seed, stream, step, first) {
  drawWords(p.w0, p.w1, p.w2, p.w3, 0, d.length + 1, LANES, first, step, 0, seed, stream);
}

// Turn the words of a block into prompts. The words stay, and can be read again with another fraction of outliers.
function readWords(d, p) {
  const query = d.length * LANES;
  for (let lane = 0; lane < LANES; lane++) {
    const pair = d.pairs[Math.floor(p.w3[query + lane] * d.pairs.length * 2 ** -32)];
    p.plus[lane] = pair[0];
    p.minus[lane] = pair[1];
  }
  if (d.exact < 0) for (let e = 0; e < query; e++) p.flag[e] = p.w3[e] < d.threshold ? 1 : 0;
  else chooseExactly(d, p);
  if (d.placement > 0) place(d, p);
  decode(d, p);
}

function chooseExactly(d, p) {
  for (let lane = 0; lane < LANES; lane++) {
    let left = d.exact;
    for (let i = 0; i < d.length; i++) {
      const e = i * LANES + lane;
      p.flag[e] = Math.floor(p.w3[e] * (d.length - i) * 2 ** -32) < left ? 1 : 0;
      left -= p.flag[e];
    }
  }
}

// Move the outliers to the beginning or the end.
function place(d, p) {
  for (let lane = 0; lane < LANES; lane++) {
    let count = 0;
    for (let i = 0; i < d.length; i++) count += p.flag[i * LANES + lane];
    for (let i = 0; i < d.length; i++) {
      p.flag[i * LANES + lane] = (d.placement === 1 ? i < count : i >= d.length - count) ? 1 : 0;
    }
  }
}

// Turn words into patterns, coefficients and labels. Products of 32 by few bits are exact in float64.
function decode(d, p) {
  const { irrelevantRow, irrelevantRows, outlierRow, outlierRows, labels, scale, strength } = d;
  const { w0, w1, w2, flag, relevant, irrelevant, outlier, kappa, label, truth } = p, powers = p.strength;
  const size = w0.length;
  for (let e = 0; e < size; e++) {
    const word = w0[e] | 0, lane = e & (LANES - 1), side = word >>> 31;
    relevant[e] = side ? p.minus[lane] : p.plus[lane];
    irrelevant[e] = irrelevantRow + ((w1[e] * irrelevantRows * 2.3283064365386963e-10) | 0);
    kappa[e] = scale * ((2 * (w2[e] >>> 8) + 1 - 16777216) * 5.9604644775390625e-8);
    const is = flag[e];
    outlier[e] = is ? outlierRow + (((word & 0x3FFFFFFF) * outlierRows * 9.313225746154785e-10) | 0) : 0;
    powers[e] = is ? strength : 0;
    const true_ = 1 - 2 * side;
    truth[e] = true_;
    label[e] = !is ? true_ : labels === 0 ? 1 - 2 * ((word >>> 30) & 1) : labels === 1 ? -true_ : 1;
  }
  const query = d.length * LANES;
  for (let lane = 0; lane < LANES; lane++) {
    p.target[lane] = truth[query + lane];
    label[query + lane] = 0;
  }
}
