// A worker: trains its share of models and seeds in slices of 30 ms, measures in between, and drops all when a newer
// request comes. Messages in: {generation, jobs, training, test, recipe, alphas}; out: one picture of a job at a time.
"use strict";

const SLICE = 30, FEW = 48, MANY = 2000;
const SOON = 12; // milliseconds of training before the first picture, if 10 steps take longer
let queue = [];
const channel = new MessageChannel();
channel.port1.onmessage = () => turn();

onmessage = ({ data }) => {
  const idle = queue.length === 0;
  queue = data.jobs.map((job) => work(data, job));
  if (idle) channel.port2.postMessage(0);
};

// Work until the slice is over, then let messages in. All jobs advance in turn, so that a first picture has them all.
function turn() {
  const end = performance.now() + SLICE;
  while (queue.length && performance.now() < end) {
    const job = queue.shift(), { value, done } = job.next();
    if (done) continue;
    if (value === "later") queue.push(job);
    else queue.unshift(job);
  }
  if (queue.length) channel.port2.postMessage(0);
}

// One model and seed: train to 10, 50, 100, 250, 500, … steps with a picture each, then measure more prompts. The first
// picture comes soon: earlier than after 10 steps, if steps are long.
function* work({ generation, training, test, recipe, alphas }, job) {
  const seed = new Seed(job.model, training, recipe, job.seed), seen = { kernels: [], attention: [] };
  const stops = [10, 50, 100, 250, 500, 1000, 2000].filter((stop) => stop < recipe.steps).concat(recipe.steps);
  for (const stop of stops) {
    yield* trainTo(stop, stop === stops[0] ? performance.now() + SOON : Infinity, seed, test, seen);
    const picture = yield* look(seed, test, alphas, FEW, 0, null);
    send(generation, job, seed, seen, picture);
    if (seed.diverged >= 0) return;
    yield "later";
  }
  let picture = null;
  for (let first = 0; first < MANY; first += 400) {
    picture = yield* look(seed, test, alphas, 400, first, picture);
    send(generation, job, seed, seen, picture);
    yield "later";
  }
}

// Train to a step, or until some time is over; at least one step.
function* trainTo(stop, until, seed, test, seen) {
  do {
    seed.train();
    if (seed.diverged < 0) watch(seed, test, seen);
    yield "on";
  } while (seed.step < stop && seed.diverged < 0 && performance.now() < until);
}

// Keep the kernel after each of the first 20 steps, then after ever rarer ones; and the attention at powers of 2.
function watch(seed, test, seen) {
  const { step } = seed, last = seen.kernels.length ? seen.kernels.at(-1).step : 0, end = step === seed.recipe.steps;
  if (step <= 20 || step >= 1.15 * last || end) seen.kernels.push({ step, kernel: kernelOf(seed) });
  if ((step & (step - 1)) === 0 || end) {
    const { same, other, prompts } = lookInside(seed, testTables(seed, test), 64);
    seen.attention.push([step, same / prompts, other / prompts]);
  }
}

// W_BᵀW_C over the relevant patterns, (M1, M1).
function kernelOf(seed) {
  const { rank, training: { relevant } } = seed;
  seed.multiply();
  return Array.from({ length: relevant }, (_, a) => Array.from(seed.square.subarray(a * (rank + 1), a * (rank + 1) + relevant)));
}

function send(generation, job, seed, seen, picture) {
  const kernels = seen.kernels.map(({ step, kernel }) => ({ step, kernel, loss: step < seed.step ? seed.losses[step] : null }));
  postMessage({ generation, key: job.key, seed: job.seed, step: seed.step, diverged: seed.diverged, losses: lossesOf(seed), ...seen, kernels, ...picture });
}

// [step, loss]: after each of the first steps, then means over ever more of them.
function lossesOf(seed) {
  const losses = [];
  for (let first = 1, last; first < seed.step; first = last) {
    last = Math.min(seed.step, Math.max(first + 1, Math.round(1.06 * first)));
    let sum = 0;
    for (let k = first; k < last; k++) sum += seed.losses[k];
    losses.push([(first + last - 1) / 2, sum / (last - first)]);
  }
  return losses;
}

// Errors at every α, and at the α of the slider gates and attention; sums are added to those of `before`.
function* look(seed, test, alphas, count, first, before) {
  const wrong = before ? before.wrong.slice() : alphas.map(() => 0), tables = testTables(seed, test);
  for (let start = first; start < first + count; start += LANES) {
    countErrors(seed, tables, test.labels, alphas, start).forEach((more, i) => { wrong[i] += more; });
    yield "on";
  }
  tables.drawing.threshold = roundEven(test.fraction * 2 ** 32);
  const inside = lookInside(seed, tables, 128);
  return {
    wrong, prompts: (before ? before.prompts : 0) + count, inside,
    products: tables.products, logits: tables.logits, number: seed.flow.number,
  };
}
