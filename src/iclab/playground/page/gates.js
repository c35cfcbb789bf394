// The gates of one-layer models, as in iclab/engines/fused/one_layer/gate_kernels.py:
// h_i = decay_i h_{i−1} + inflow_i y_i score_i, F = decay(query) h_l. `open` sets decay, inflow and their slopes.
"use strict";

const KINDS = ["none", "product", "power", "scaled", "retention", "constant", "sigmoid", "hard", "softsign", "exp"];
const [UNGATED, PRODUCT, POWER, SCALED, RETENTION, CONSTANT, SIGMOID, HARD, SOFTSIGN, EXP] = KINDS.map((_, i) => i);

function sigmoid(x) {
  const power = Math.exp(-Math.abs(x));
  return (x > 0 ? 1 : power) / (1 + power);
}

function softplus(x) {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
}

// Open the gate at logit x for token e of the scratch s.
function openGate(gate, s, e, x) {
  let decay = 1, inflow = 1, fall = 0, rise = 0, turn = 0;
  switch (gate.kind) {
    case POWER:
    case SCALED: {
      const exponent = Math.exp(gate.number), step = softplus(x);
      decay = Math.exp(-exponent * step);
      fall = -exponent * sigmoid(x) * decay;
      turn = -exponent * step * decay;
      if (gate.kind === SCALED) [inflow, rise] = [step, sigmoid(x)];
      break;
    }
    case RETENTION:
      decay = Math.exp(-gate.first * softplus(-x));
      fall = gate.first * sigmoid(-x) * decay;
      break;
    case CONSTANT:
      decay = 1 / (1 + Math.exp(-gate.number));
      turn = decay * (1 - decay);
      break;
    case HARD:
      inflow = Math.min(Math.max(0.5 + x / 4, 0), 1);
      rise = inflow > 0 && inflow < 1 ? 0.25 : 0;
      decay = 1 - inflow;
      fall = -rise;
      break;
    case SOFTSIGN: {
      const small = 1 / (2 + Math.abs(x));
      inflow = x < 0 ? small : 1 - small;
      decay = x < 0 ? 1 - small : small;
      rise = small * small;
      fall = -rise;
      break;
    }
    case EXP: {
      const step = Math.exp(Math.min(x, 50));
      decay = Math.exp(-step);
      inflow = -Math.expm1(-step);
      rise = step * decay;
      fall = -rise;
      break;
    }
    default: { // SIGMOID: second + (1 − second) σ(first · x)
      const share = 1 - gate.second, open = sigmoid(gate.first * x), stay = sigmoid(-gate.first * x);
      decay = share * stay;
      inflow = gate.second + share * open;
      rise = share * gate.first * open * stay;
      fall = -rise;
    }
  }
  s.decay[e] = decay;
  s.inflow[e] = inflow;
  s.fall[e] = fall;
  s.rise[e] = rise;
  s.turn[e] = turn;
}
