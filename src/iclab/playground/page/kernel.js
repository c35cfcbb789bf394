// The kernel W_BᵀW_C beside the law δ² exp(2τL) of docs/theory.md, a mirror of iclab/theory/graph.py and laws.py.
"use strict";

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

// δ² exp(2τL).
function lawAt(time, L, delta) {
  return expm(L.map((row) => row.map((x) => 2 * time * x))).map((row) => row.map((x) => x * delta * delta));
}

// The share of a kernel's variance over its entries that δ² exp(2τL) explains.
function explained(kernel, law) {
  const entries = kernel.flat(), mean = entries.reduce((s, x) => s + x, 0) / entries.length;
  const rest = law.flat().reduce((sum, x, i) => sum + (x - entries[i]) ** 2, 0);
  return 1 - rest / (entries.reduce((s, x) => s + (x - mean) ** 2, 0) || 1);
}

// The τ for which δ² exp(2τL) is nearest to a kernel, by golden section.
function fitTime(kernel, L, delta) {
  const miss = (time) => -explained(kernel, lawAt(time, L, delta)), golden = (Math.sqrt(5) - 1) / 2;
  let low = 0, high = Math.log(1 + kernel.flat().reduce((s, x) => s + Math.abs(x), 0) / delta ** 2) / 2; // enough: L has an eigenvalue ≥ 1
  for (let k = 0; k < 28; k++) {
    const a = high - golden * (high - low), b = low + golden * (high - low);
    if (miss(a) < miss(b)) high = b;
    else low = a;
  }
  const time = (low + high) / 2;
  return { time, r2: -miss(time) };
}

// τ = η β² (1 − p_a) g t / (2 M1) of iclab.theory.laws, with nothing fitted: g is the sum of all gates at w = 0.
function predictedTime(state, key, step) {
  const { kind, first, second, start } = CONTENT.models[key].form, s = { decay: [1], inflow: [1], fall: [], rise: [], turn: [] };
  if (kind === "product") [s.decay[0], s.inflow[0]] = [0.5, 0.5];
  else if (kind !== "none") openGate({ kind: KINDS.indexOf(kind), first, second, number: start }, s, 0, 0);
  let g = 0;
  for (let i = 1; i <= state.l; i++) g += s.inflow[0] * s.decay[0] ** i;
  return (engineModel(key, state).stepSize * state.beta ** 2 * (1 - state.pa) * g * step) / (2 * state.m1);
}

// The steps with kernels that all seeds of a model have reached, with the mean loss.
function keptSteps(rows) {
  const count = Math.min(...rows.map((row) => row.kernels.length));
  return rows[0].kernels.slice(0, count).map(({ step }, k) => ({
    step,
    loss: rows.some((row) => row.kernels[k].loss === null) ? null : rows.reduce((sum, row) => sum + row.kernels[k].loss, 0) / rows.length,
  }));
}

// The k-th kept kernel, as a mean over seeds.
function meanKernel(rows, k) {
  return rows[0].kernels[k].kernel.map((row, i) => row.map((_, j) => rows.reduce((sum, r) => sum + r.kernels[k].kernel[i][j], 0) / rows.length));
}

// The law is for an active hinge. The experiment M-kernel judges it while the loss is above 0.5; this is the last step
// before the loss first falls to that, and whether it has fallen.
function momentOf(kept) {
  const known = kept.filter(({ loss }) => loss !== null), first = known.findIndex(({ loss }) => loss <= CONTENT.active);
  return { moment: known[(first < 0 ? known.length : first) - 1] || null, fallen: first >= 0 };
}

// The kernel at the chosen step, or at the moment of the law, beside the law. Returns the step.
function drawKernel(rows, key, state) {
  const kept = keptSteps(rows), { moment, fallen } = momentOf(kept), slider = byId("kernel-step");
  const shown = state.step ? kept.findLast(({ step }) => step <= state.step) || kept[0] : moment || kept[0];
  const fit = drawMaps(rows, key, state, kept.indexOf(shown)), time = predictedTime(state, key, shown.step);
  slider.max = kept.length - 1;
  slider.value = kept.indexOf(shown);
  slider.dataset.steps = kept.map(({ step }) => step).join(",");
  slider.setAttribute("aria-valuetext", `step ${shown.step}`);
  byId("kernel-moment").replaceChildren(...(moment ? [element("option", { value: kept.indexOf(moment) })] : []));
  byId("out-step").textContent = `${shown.step}${shown.loss === null ? "" : `, loss ${shown.loss.toFixed(2)}`}`;
  byId("moment").disabled = !state.step;
  byId("fit").textContent = `Left: W_BᵀW_C of ${CONTENT.models[key].label} ${when(shown.step, moment, fallen)} Right: δ² exp(2τL) with τ = ${fit.time.toFixed(2)} fitted, R² = ${fit.r2.toFixed(3)}. Predicted with nothing fitted, for small steps and gates as at w = 0: τ = ${time.toFixed(2)}.`;
  return shown.step;
}

// Draw the k-th kept kernel and the law that fits it; return the fit. Later pictures of the same seeds have the same.
let maps = {};
function drawMaps(rows, key, state, k) {
  const of = [generation, key, k, ...rows.map(({ seed }) => seed)].join();
  if (maps.of === of) return maps.fit;
  const kernel = meanKernel(rows, k), L = laplacian(taskPairs(state.tasks, state.m1), state.m1), fit = fitTime(kernel, L, state.delta);
  byId("kernel").replaceChildren(heatMap(kernel, "W_BᵀW_C over relevant patterns"), heatMap(lawAt(fit.time, L, state.delta), "δ² exp(2τL)"));
  maps = { of, fit };
  return fit;
}

function when(step, moment, fallen) {
  if (!fallen) return `after step ${step}${moment ? `; the loss has not fallen to ${CONTENT.active} yet` : ""}.`;
  if (!moment) return `after step ${step}. The loss is below ${CONTENT.active} from the first step on, and the law is about what comes before.`;
  if (step === moment.step) return `after step ${step}, the last before the loss falls to ${CONTENT.active}: the law holds until about then.`;
  return step < moment.step ? `after step ${step}, before the loss falls to ${CONTENT.active}.` : `after step ${step}. The law held until about step ${moment.step}; since then the hinge is 0 for many prompts.`;
}
