// Random numbers without hidden state: Philox4x32-10, as in iclab/prompts/counter_kernels.py.
// key = (seed, stream), counter = (position, index, step, slot).
"use strict";

const STREAM = { TRAIN: 1, TEST: 2, WEIGHTS: 5 };

// The upper word of a 32 × 32 bit product, from the rounded product in float64 and the exact lower word: what is left
// after taking the lower word away is a multiple of 2^32 to within 2^11, so that rounding it is exact.
function high(a, m, low) {
  return ((a >>> 0) * m - (low >>> 0)) * 2.3283064365386963e-10 + 0.5;
}

// Fill w0 … w3 (token · lanes + lane) with one block per token, for prompts first, first + 1, … of a step.
function drawWords(w0, w1, w2, w3, start, tokens, lanes, first, step, slot, seed, stream) {
  for (let token = start; token < tokens; token++) {
    for (let lane = 0; lane < lanes; lane++) {
      let c0 = token | 0, c1 = (first + lane) | 0, c2 = step | 0, c3 = slot | 0, k0 = seed | 0, k1 = stream | 0;
      for (let round = 0; round < 10; round++) {
        const low0 = Math.imul(c0, 0xD2511F53), low1 = Math.imul(c2, 0xCD9E8D57);
        const high0 = high(c0, 0xD2511F53, low0) >>> 0, high1 = high(c2, 0xCD9E8D57, low1) >>> 0;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 = (k0 + 0x9E3779B9) | 0;
        k1 = (k1 + 0xBB67AE85) | 0;
      }
      const e = token * lanes + lane;
      w0[e] = c0;
      w1[e] = c1;
      w2[e] = c2;
      w3[e] = c3;
    }
  }
}

// Standard normal numbers (Box and Muller), as iclab.prompts.counters.normals.
function normals(seed, stream, count, slot) {
  const pairs = (count + 1) >> 1, out = new Float64Array(2 * pairs);
  const words = [0, 1, 2, 3].map(() => new Uint32Array(pairs));
  drawWords(...words, 0, pairs, 1, 0, 0, slot, seed, stream);
  for (let i = 0; i < pairs; i++) {
    const u = (words[0][i] + (words[1][i] + 0.5) * 2 ** -32) * 2 ** -32;
    const angle = 2 * Math.PI * (words[2][i] + (words[3][i] + 0.5) * 2 ** -32) * 2 ** -32;
    const radius = Math.sqrt(-2 * Math.log(u));
    out[2 * i] = radius * Math.cos(angle);
    out[2 * i + 1] = radius * Math.sin(angle);
  }
  return out.subarray(0, count);
}
