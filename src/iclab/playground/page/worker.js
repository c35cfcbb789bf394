// A worker: trains its share of models and seeds in slices of 30 ms, measures in between, and drops all when a newer
// request comes. Messages in: {generation, jobs, training, test, recipe, alphas}; out: one picture of a job at a time.
"use strict";

const SLICE = 30, FEW = 48, MANY = 2000;
let current = 0, queue = [];
const channel = new MessageChannel();
channel.port1.onmessage = () => turn();

onmessage = ({ data }) => {
  const idle = queue.length === 0;
  current = data.generation;
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

// One model and seed: train to 10, 50, 100, 250, 500, … steps with a picture each, then measure more prompts.
function* work({ generation, training, test, recipe, alphas }, job) {
  const seed = new Seed(job.model, training, recipe, job.seed);
  const stops = [10, 50, 100, 250, 500, 1000, 2000].filter((stop) => stop < recipe.steps).concat(recipe.steps);
  for (const stop of stops) {
    while (seed.step < stop && seed.diverged < 0) {
      seed.train();
      yield "on";
    }
    const picture = yield* look(seed, test, alphas, FEW, 0, null);
    send(generation, job, seed, picture);
    if (seed.diverged >= 0) return;
    yield "later";
  }
  let picture = null;
  for (let first = 0; first < MANY; first += 400) {
    picture = yield* look(seed, test, alphas, 400, first, picture);
    send(generation, job, seed, picture);
    yield "later";
  }
}

function send(generation, job, seed, picture) {
  const every = Math.max(1, Math.ceil(seed.step / 200)), losses = [];
  for (let i = 0; i < seed.step; i += every) { // means over a few steps
    const last = Math.min(i + every, seed.step);
    let sum = 0;
    for (let k = i; k < last; k++) sum += seed.losses[k];
    losses.push([(i + last) / 2, sum / (last - i)]);
  }
  seed.multiply();
  const kernel = [];
  for (let a = 0; a < seed.training.relevant; a++) {
    kernel.push(Array.from(seed.square.subarray(a * (seed.rank + 1), a * (seed.rank + 1) + seed.training.relevant)));
  }
  postMessage({ generation, key: job.key, seed: job.seed, step: seed.step, diverged: seed.diverged, losses, kernel, ...picture });
}

// Errors at every α, and at the α of the slider gates and attention; sums are added to those of `before`.
function* look(seed, test, alphas, count, first, before) {
  const wrong = before ? before.wrong.slice() : alphas.map(() => 0), tables = testTables(seed, test);
  for (let i = 0; i < alphas.length; i++) {
    tables.drawing.threshold = roundEven(alphas[i] * 2 ** 32);
    wrong[i] += countErrors(seed, tables, test.labels, first, count);
    yield "on";
  }
  tables.drawing.threshold = roundEven(test.fraction * 2 ** 32);
  const inside = lookInside(seed, tables, 128);
  return {
    wrong, prompts: (before ? before.prompts : 0) + count, inside,
    products: tables.products, logits: tables.logits, number: seed.flow.number,
  };
}
