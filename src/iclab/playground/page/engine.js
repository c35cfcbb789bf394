// The fused engine for one-layer models, as in iclab/engines/fused/one_layer/step_kernels.py; docs/fused.md derives it.
// Patterns are orthogonal here, so the coordinates of pattern j are its norm along direction j.
"use strict";

function makeScratch(length, rows) {
  const size = (length + 1) * LANES, real = () => new Float32Array(size);
  return { // without a gate, inflow and decay stay 1
    score: real(), inflow: real().fill(1), decay: real().fill(1), before: real(), rise: real(), fall: real(), turn: real(),
    output: new Float32Array(LANES), read: new Float32Array(LANES * (rows + 1)), length, rows,
  };
}

// Answer a block: products[q (rows + 1) + j] = p_jᵀ W_Bᵀ W_C p_q over dictionary rows, logits[j] = wᵀ p_j; label last.
function forward(gate, p, s, products, logits) {
  attend(p, s, products);
  if (gate.kind === UNGATED) {
    const { score, output } = s, { label } = p, query = s.length * LANES;
    output.fill(0);
    for (let e = 0; e < query; e++) output[e & (LANES - 1)] += label[e] * score[e];
    return;
  }
  openGates(gate, p, s, logits);
  addUp(p, s);
}

// The attention p_iᵀ W_Bᵀ W_C p_query of every example.
function attend(p, s, products) {
  const { length, rows, score, read } = s, width = rows + 1, query = length * LANES;
  const { relevant, irrelevant, outlier, kappa, strength, label } = p;
  for (let lane = 0; lane < LANES; lane++) {
    const q = relevant[query + lane] * width, k = irrelevant[query + lane] * width, far = kappa[query + lane];
    const at = lane * width;
    for (let j = 0; j < width; j++) read[at + j] = products[q + j] + far * products[k + j];
  }
  for (let e = 0; e < query; e++) {
    const at = (e & (LANES - 1)) * width;
    score[e] = read[at + relevant[e]] + kappa[e] * read[at + irrelevant[e]]
      + strength[e] * read[at + outlier[e]] + label[e] * read[at + rows];
  }
}

// Inflow and decay of every token from its logit.
function openGates(gate, p, s, logits) {
  const { length, rows, inflow, decay } = s, size = (length + 1) * LANES, own = logits[rows];
  const { relevant, irrelevant, outlier, kappa, strength, label } = p;
  for (let e = 0; e < size; e++) {
    const logit = logits[relevant[e]] + kappa[e] * logits[irrelevant[e]]
      + strength[e] * logits[outlier[e]] + label[e] * own;
    if (gate.kind === PRODUCT) {
      const power = Math.exp(-logit), open = 1 / (1 + power);
      inflow[e] = open;
      decay[e] = power === Infinity ? 1 : power * open;
    } else {
      openGate(gate, s, e, logit);
    }
  }
}

// h_i = decay h_{i−1} + inflow y_i s_i, and F = decay h_l at the query.
function addUp(p, s) {
  const { length, score, inflow, decay, before, output } = s, { label } = p, query = length * LANES;
  output.fill(0);
  for (let e = 0; e < query; e++) {
    const lane = e & (LANES - 1);
    before[e] = output[lane];
    output[lane] = decay[e] * output[lane] + inflow[e] * label[e] * score[e];
  }
  for (let lane = 0; lane < LANES; lane++) {
    before[query + lane] = output[lane];
    output[lane] *= decay[query + lane];
  }
}

// Add one prompt's z·∂F to the sums: pairs[q, j] = Σ z G y c_j c_q, along[j] = Σ z ∂F/∂logit c_j.
function backward(gate, p, s, lane, t) {
  const { length, rows, score, inflow, decay, before, rise, fall, turn, output } = s, width = rows + 1;
  const { relevant, irrelevant, outlier, kappa, strength, label } = p, { pairs, along, row } = t;
  const query = length * LANES + lane, z = p.target[lane], gated = gate.kind !== UNGATED;
  const q = relevant[query], other = irrelevant[query], far = kappa[query];
  row.fill(0);
  let suffix = 1;
  if (gated) {
    suffix = decay[query];
    let slope;
    if (gate.kind === PRODUCT) slope = -z * inflow[query] * output[lane];
    else {
      slope = z * fall[query] * before[query];
      t.turned += z * turn[query] * before[query];
    }
    along[q] += slope;
    along[other] += slope * far;
  }
  for (let e = query - LANES; e >= 0; e -= LANES) {
    const r = relevant[e], k = irrelevant[e], o = outlier[e], y = label[e], c = kappa[e], a = strength[e];
    let weight = z * y * suffix;
    if (gated) {
      weight *= inflow[e];
      let slope;
      if (gate.kind === PRODUCT) slope = z * suffix * inflow[e] * decay[e] * (y * score[e] - before[e]);
      else {
        slope = z * suffix * (rise[e] * y * score[e] + fall[e] * before[e]);
        t.turned += z * suffix * turn[e] * before[e];
      }
      along[r] += slope;
      along[k] += slope * c;
      if (a !== 0) along[o] += slope * a;
      along[rows] += slope * y;
      suffix *= decay[e];
    }
    row[r] += weight;
    row[k] += weight * c;
    if (a !== 0) row[o] += weight * a;
    row[rows] += weight * y;
  }
  const first = q * width, second = other * width;
  for (let j = 0; j < width; j++) {
    pairs[first + j] += row[j];
    pairs[second + j] += far * row[j];
  }
}

// One seed of a model. `model` has kind, first, second, vector, scalar, start, gateScale, initScale, stepSize and, if its
// gate is not to be trained, held; `recipe` has batch and steps. Weights: key (r, r + 1), query (r, r), gate (r + 1), number.
class Seed {
  constructor(model, training, recipe, seed) {
    Object.assign(this, { model, training, recipe, seed, step: 0, diverged: -1, moved: true });
    this.drawing = makeDrawing(training);
    const r = this.drawing.rank, rows = this.drawing.rows, width = rows + 1;
    this.rank = r;
    this.norms = Float32Array.from({ length: r }, () => training.norm);
    this.block = makeBlock(training.length);
    this.scratch = makeScratch(training.length, rows);
    this.key = new Float32Array(r * (r + 1));
    this.query = new Float32Array(r * r);
    this.gate = new Float32Array(r + 1);
    for (let a = 0; a < r; a++) this.key[a * (r + 1) + a] = this.query[a * r + a] = model.initScale;
    if (model.vector) {
      const scale = model.gateScale / Math.sqrt(training.dimension + 1);
      normals(seed, STREAM.WEIGHTS, r, 0).forEach((x, a) => { this.gate[a] = x * scale; });
      this.gate[r] = normals(seed, STREAM.WEIGHTS, 1, 2)[0] * scale;
    }
    this.flow = { kind: KINDS.indexOf(model.kind), first: model.first, second: model.second, number: Math.fround(model.start) };
    this.square = new Float32Array(r * (r + 1));
    this.tables = {
      products: new Float32Array(rows * width), logits: new Float32Array(width), pairs: new Float32Array(rows * width),
      along: new Float32Array(width), row: new Float32Array(width), turned: 0,
    };
    this.steps = { key: new Float32Array(r * (r + 1)), query: new Float32Array(r * r) };
    this.losses = new Float32Array(recipe.steps);
  }

  // W_Cᵀ W_B, (r, r + 1).
  multiply() {
    const { rank: r, square, key, query } = this, width = r + 1;
    square.fill(0);
    for (let k = 0; k < r; k++) {
      for (let q = 0; q < r; q++) {
        const c = query[k * r + q];
        if (c === 0) continue;
        for (let j = 0; j < width; j++) square[q * width + j] += c * key[k * width + j];
      }
    }
  }

  fillTables() {
    this.multiply();
    const { rank: r, square, norms, tables: t } = this, width = r + 1;
    for (let q = 0; q < r; q++) {
      for (let j = 0; j < r; j++) t.products[q * width + j] = norms[q] * norms[j] * square[q * width + j];
      t.products[q * width + r] = norms[q] * square[q * width + r];
      t.logits[q] = norms[q] * this.gate[q];
    }
    t.logits[r] = this.gate[r];
    t.pairs.fill(0);
    t.along.fill(0);
    t.turned = 0;
  }

  // ∇W_C = W_B X, ∇W_B = W_C Xᵀ, X = Σ z G y p pᵀ, and one step of SGD.
  move() {
    const { rank: r, square: x, norms, tables: t, key, query, steps } = this, width = r + 1;
    for (let a = 0; a < r; a++) {
      for (let b = 0; b < r; b++) x[a * width + b] = norms[a] * norms[b] * t.pairs[a * width + b];
      x[a * width + r] = norms[a] * t.pairs[a * width + r];
    }
    steps.key.fill(0);
    for (let i = 0; i < r; i++) {
      for (let a = 0; a < r; a++) {
        const c = query[i * r + a];
        if (c !== 0) for (let b = 0; b < width; b++) steps.key[i * width + b] += c * x[a * width + b];
      }
      for (let a = 0; a < r; a++) {
        let total = 0;
        for (let b = 0; b < width; b++) total += key[i * width + b] * x[a * width + b];
        steps.query[i * r + a] = total;
      }
    }
    const rate = Math.fround(this.model.stepSize) / this.recipe.batch;
    for (let i = 0; i < key.length; i++) key[i] += rate * steps.key[i];
    for (let i = 0; i < query.length; i++) query[i] += rate * steps.query[i];
    if (this.model.vector && !this.model.held) {
      for (let a = 0; a < r; a++) this.gate[a] += rate * norms[a] * t.along[a];
      this.gate[r] += rate * t.along[r];
    }
    if (this.model.scalar) this.flow.number = Math.fround(this.flow.number + rate * t.turned);
  }

  // Take one step on the hinge loss.
  train() {
    const { block: p, scratch: s, tables: t, flow, drawing, recipe } = this;
    if (this.moved) this.fillTables();
    let loss = 0, active = 0;
    for (let start = 0; start < recipe.batch; start += LANES) {
      draw(drawing, p, this.seed, STREAM.TRAIN, this.step, start);
      forward(flow, p, s, t.products, t.logits);
      const lanes = Math.min(LANES, recipe.batch - start);
      for (let lane = 0; lane < lanes; lane++) {
        const margin = 1 - p.target[lane] * s.output[lane];
        if (margin <= 0) continue;
        loss += margin;
        active++;
        backward(flow, p, s, lane, t);
      }
    }
    this.losses[this.step] = loss / recipe.batch;
    if (!Number.isFinite(this.losses[this.step])) {
      this.diverged = this.step;
      return;
    }
    this.moved = active > 0;
    if (this.moved) this.move();
    this.step++;
  }
}
