// Measurements on test prompts, as in step_kernels.measure and worst_kernels.py.
"use strict";

// Tables over the test dictionary: the patterns, then mixtures Σ λ_i v*_i.
function testTables(seed, test) {
  const drawing = makeDrawing(test), r = seed.rank, rows = drawing.rows, width = rows + 1;
  seed.multiply();
  const coordinates = [];
  for (let j = 0; j < rows; j++) {
    const row = new Float64Array(r);
    if (j < r) row[j] = test.norm;
    else PAPER_MIXTURES[j - r].forEach((weight, i) => { row[r - test.outlier + i] = weight * test.norm; });
    coordinates.push(row);
  }
  const products = new Float32Array(rows * width), logits = new Float32Array(width), half = new Float64Array(r + 1);
  for (let q = 0; q < rows; q++) {
    half.fill(0);
    for (let a = 0; a < r; a++) {
      const c = coordinates[q][a];
      if (c !== 0) for (let b = 0; b <= r; b++) half[b] += c * seed.square[a * (r + 1) + b];
    }
    for (let j = 0; j < rows; j++) {
      let total = 0;
      for (let b = 0; b < r; b++) total += half[b] * coordinates[j][b];
      products[q * width + j] = total;
    }
    products[q * width + rows] = half[r];
    let logit = 0;
    for (let b = 0; b < r; b++) logit += coordinates[q][b] * seed.gate[b];
    logits[q] = logit;
  }
  logits[rows] = seed.gate[r];
  return { drawing, products, logits, byHand: test.gates, block: makeBlock(test.length), scratch: makeScratch(test.length, rows) };
}

// Answer a block as it is or, if the test says so, with the gates of all outliers set by hand.
function answer(gate, p, s, { byHand, products, logits }) {
  if (!byHand || byHand === "learned") return forward(gate, p, s, products, logits);
  return forwardByHand(gate, p, s, products, logits, p.flag.map((flag) => (flag ? HANDS.indexOf(byHand) : 0)));
}

const HANDS = ["learned", "shut", "open"];

// The same with gates set by hand, hand[e] a place in HANDS. Shut: G_i = 0 and all other gates as they are. Open: the
// gate opens as for a clean example, without v* and with the true label.
function forwardByHand(gate, p, s, products, logits, hand) {
  const clean = (own, other) => own.map((value, e) => (HANDS[hand[e]] === "open" ? other(e) : value));
  attend(p, s, products);
  if (gate.kind === UNGATED) s.inflow.fill(1);
  else openGates(gate, { ...p, strength: clean(p.strength, () => 0), label: clean(p.label, (e) => p.truth[e]) }, s, logits);
  for (let e = 0; e < s.length * LANES; e++) if (HANDS[hand[e]] === "shut") s.inflow[e] = 0;
  addUp(p, s);
}

// Of test prompts start … start + LANES − 1, the number that a seed answers wrongly at each fraction of outliers; an answer
// of 0 or NaN is wrong. The words are drawn once for all fractions.
function countErrors(seed, tables, labels, fractions, start) {
  const { drawing, products, logits, block: p, scratch: s } = tables;
  const worst = labels === "worst" ? makeChoices(drawing.length) : null;
  fillWords(drawing, p, seed.seed, STREAM.TEST, 0, start);
  return fractions.map((fraction) => {
    drawing.threshold = roundEven(fraction * 2 ** 32);
    readWords(drawing, p);
    if (worst) weigh(seed.flow, p, s, worst, products, logits);
    else answer(seed.flow, p, s, tables);
    let wrong = 0;
    for (let lane = 0; lane < LANES; lane++) {
      const margin = worst ? worstMargin(s, worst, lane) : p.target[lane] * s.output[lane];
      if (!(margin > 0)) wrong++;
    }
    return wrong;
  });
}

function makeChoices(length) {
  const real = () => new Float32Array(length * LANES);
  return { plusDecay: real(), plusGain: real(), minusDecay: real(), minusGain: real() };
}

// What every example does to z·h if all outliers show +1, and if all show −1.
function weigh(gate, p, s, c, products, logits) {
  const query = s.length * LANES;
  for (const [sign, decay, gain] of [[1, c.plusDecay, c.plusGain], [-1, c.minusDecay, c.minusGain]]) {
    for (let e = 0; e < query; e++) if (p.flag[e]) p.label[e] = sign;
    forward(gate, p, s, products, logits);
    for (let e = 0; e < query; e++) {
      const vote = p.target[e & (LANES - 1)] * p.label[e] * s.score[e];
      decay[e] = s.decay[e];
      gain[e] = s.inflow[e] * vote;
    }
  }
}

// The smallest z·F of one prompt over all labels of its outliers.
function worstMargin(s, c, lane) {
  let best = 0;
  for (let e = lane; e < s.length * LANES; e += LANES) {
    const plus = c.plusDecay[e] * best + c.plusGain[e], minus = c.minusDecay[e] * best + c.minusGain[e];
    best = plus < minus || plus !== plus ? plus : minus;
  }
  return s.decay[s.length * LANES + lane] * best;
}

// Mean gate by distance from the query (0 is the nearest), of clean examples and of outliers; and the mean attention
// on examples that share the query's pattern, and on the others.
function lookInside(seed, tables, count) {
  const { drawing, block: p, scratch: s } = tables, { length } = drawing, query = length * LANES;
  const sums = { clean: new Float64Array(length), cleanCount: new Float64Array(length),
    outlier: new Float64Array(length), outlierCount: new Float64Array(length), same: 0, other: 0, prompts: 0 };
  for (let start = 0; start < count; start += LANES) {
    draw(drawing, p, seed.seed, STREAM.TEST, 0, start);
    answer(seed.flow, p, s, tables);
    for (let lane = 0; lane < Math.min(LANES, count - start); lane++) {
      const gates = gatesOf(s, lane);
      sums.prompts++;
      for (let i = 0; i < length; i++) {
        const e = i * LANES + lane, at = length - 1 - i, kind = p.flag[e] ? "outlier" : "clean";
        sums[kind][at] += gates[i];
        sums[`${kind}Count`][at]++;
        sums[p.relevant[e] === p.relevant[query + lane] ? "same" : "other"] += s.score[e];
      }
    }
  }
  return sums;
}

// G_i of every example of one prompt: inflow_i times the decays of all later tokens, the query among them.
function gatesOf(s, lane) {
  const out = new Float64Array(s.length);
  let suffix = s.decay[s.length * LANES + lane];
  for (let i = s.length - 1; i >= 0; i--) {
    out[i] = s.inflow[i * LANES + lane] * suffix;
    suffix *= s.decay[i * LANES + lane];
  }
  return out;
}
