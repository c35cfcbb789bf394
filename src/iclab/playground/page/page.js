// The page: controls change the state, the state starts the workers, their pictures are drawn.
"use strict";

const ALPHAS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const byId = (id) => document.getElementById(id);
let state = usualState(), generation = 0, results = new Map(), waiting = false, shownModel = "", promptIndex = 0, started = 0;

// Theme: the system's, unless the reader chooses one.
const system = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";
function applyTheme() {
  document.documentElement.dataset.theme = (theme === "system" ? system.matches : theme === "dark") ? "dark" : "light";
  byId("theme").textContent = `Theme: ${theme}`;
}
byId("theme").addEventListener("click", () => {
  theme = { system: "light", light: "dark", dark: "system" }[theme];
  applyTheme();
});
system.addEventListener("change", applyTheme);
applyTheme();

// Workers, one per core, made from the scripts of this page.
const code = [byId("engine").textContent, byId("worker").textContent].join("\n");
const source = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
const cores = Math.max(1, Math.min(navigator.hardwareConcurrency || 2, 16));
const workers = Array.from({ length: cores }, () => new Worker(source));
for (const worker of workers) {
  worker.onmessage = ({ data }) => {
    if (data.generation !== generation) return;
    results.set(`${data.key}/${data.seed}`, data);
    if (!waiting) requestAnimationFrame(drawAll);
    waiting = true;
  };
}

// Start again from the state; the newest change wins.
function start() {
  const jobs = workers.map(() => []), about = describe(state);
  generation++;
  results = new Map();
  started = performance.now();
  delete document.body.dataset.first;
  delete document.body.dataset.done;
  let next = 0;
  for (let seed = 0; seed < state.seeds; seed++) {
    for (const key of state.models.split(",")) jobs[next++ % workers.length].push({ key, seed, model: engineModel(key, state) });
  }
  workers.forEach((worker, i) => worker.postMessage({ generation, jobs: jobs[i], alphas: ALPHAS, ...about }));
}

// Take a change over: into the address, the controls and the workers. Refuse what cannot be.
function change(changes) {
  const next = { ...state, ...changes };
  if (next.v !== 3 && next.patterns === "paper") next.patterns = "training";
  if (changes.m1 !== undefined && contradiction(next)) next.tasks = `ring:${Math.min(3, next.m1 - 1)}`;
  const problem = contradiction(next);
  if (problem) return complain(problem);
  complain("");
  state = next;
  const words = writeAddress(state);
  history.replaceState(null, "", words ? `#${words}` : location.pathname + location.search);
  show();
  start();
}

function complain(words) {
  byId("problem").textContent = words;
  byId("problem").hidden = !words;
}

// Sliders and other controls, made once.
function makeControls() {
  for (const setting of SETTINGS) {
    const { key, symbol, words, least, most, step } = setting;
    const row = element("label", { class: "slider", title: words });
    const input = element("input", { type: "range", id: `set-${key}`, min: least, max: most, step, "aria-label": `${symbol}, ${words}` });
    row.append(element("span", { class: "symbol" }, symbol), element("span", { class: "words" }, words), element("output", { id: `out-${key}` }), input);
    input.addEventListener("input", () => change({ [key]: Number(input.value) }));
    byId(`group-${setting.group}`).append(row);
  }
  for (const [key, options] of Object.entries(CONTENT.choices)) {
    const row = element("label", { class: "choice" }, { labels: "labels of outliers", placement: "places of outliers", patterns: "patterns of outliers" }[key]);
    const select = element("select", { id: `set-${key}` });
    for (const word of options) select.append(element("option", { value: word }, word));
    select.addEventListener("change", () => change({ [key]: select.value }));
    row.append(select);
    byId("group-test").append(row);
  }
  for (const [key, { label, colour }] of Object.entries(CONTENT.models)) {
    const row = element("label", { class: "model" }), box = element("input", { type: "checkbox", id: `model-${key}` });
    const dot = element("i");
    dot.style.background = colour;
    box.addEventListener("change", () => {
      const names = Object.keys(CONTENT.models).filter((name) => byId(`model-${name}`).checked);
      if (names.length) change({ models: names.join(",") });
      else box.checked = true;
    });
    row.append(box, dot, document.createTextNode(label));
    byId("models").append(row);
  }
  byId("preset").append(element("option", { value: "" }, "choose a preset …"));
  for (const { key, title } of CONTENT.presets) byId("preset").append(element("option", { value: key }, title));
  byId("preset").addEventListener("change", () => {
    const preset = CONTENT.presets.find(({ key }) => key === byId("preset").value);
    if (preset) change({ ...usualState(), ...preset.changes });
  });
  byId("reset").addEventListener("click", () => { byId("preset").value = ""; change(usualState()); });
  byId("another").addEventListener("click", () => { promptIndex++; newPrompt(); });
  byId("which").addEventListener("change", () => { shownModel = byId("which").value; show(); drawAll(); });
  byId("copy").addEventListener("click", () => navigator.clipboard?.writeText(location.href).then(() => { byId("copy").textContent = "Copied"; }, () => {}));
}

// Let the controls show the state.
function show() {
  for (const { key } of SETTINGS) {
    byId(`set-${key}`).value = state[key];
    byId(`out-${key}`).textContent = tidy(state[key]);
  }
  for (const key of Object.keys(CONTENT.choices)) byId(`set-${key}`).value = state[key];
  byId("set-patterns").querySelector("[value=paper]").disabled = state.v !== 3;
  const chosen = state.models.split(",");
  for (const key of Object.keys(CONTENT.models)) byId(`model-${key}`).checked = chosen.includes(key);
  if (!chosen.includes(shownModel)) shownModel = chosen[0];
  byId("which").replaceChildren(...chosen.map((key) => element("option", { value: key }, CONTENT.models[key].label)));
  byId("which").value = shownModel;
  drawGraph(byId("graph"), state, (tasks, edge) => {
    change({ tasks });
    byId("graph").querySelector(`[data-edge="${edge}"]`)?.focus();
  });
  byId("tasks").textContent = state.tasks;
  byId("python").textContent = asPython(state);
  byId("commands").textContent = asCommands(state);
  drawConditions(byId("conditions"), byId("covered"), state, shownModel);
  newPrompt();
}

function newPrompt() {
  takePrompt(describe(state).test, promptIndex);
  drawPrompt();
}

function drawPrompt(focus) {
  const { test } = describe(state), shown = results.get(`${shownModel}/0`), { form, label } = CONTENT.models[shownModel];
  drawEditor(byId("editor"), byId("answer"), shown, form, label, test, drawPrompt);
  if (focus !== undefined) byId("editor").querySelector(`[data-at="${focus}"]`)?.focus();
}

// Mean and range over the seeds of a model; a seed that diverged has no error.
function spread(rows) {
  return [rows.reduce((sum, x) => sum + x, 0) / rows.length, Math.min(...rows), Math.max(...rows)];
}

function seedsOf(key) {
  return [...results.values()].filter((row) => row.key === key && row.diverged < 0);
}

function drawAll() {
  waiting = false;
  const chosen = state.models.split(","), series = { error: [], loss: [], gates: [] };
  for (const key of chosen) {
    const rows = seedsOf(key), { colour } = CONTENT.models[key];
    if (!rows.length) continue;
    series.error.push({ colour, points: ALPHAS.map((alpha, i) => [alpha, ...spread(rows.map((row) => row.wrong[i] / row.prompts))]) });
    const steps = Math.min(...rows.map((row) => row.losses.length));
    series.loss.push({ colour, points: Array.from({ length: steps }, (_, i) => [rows[0].losses[i][0], ...spread(rows.map((row) => row.losses[i]?.[1] ?? 0))]) });
    for (const [kind, dash] of [["clean", ""], ["outlier", "4 3"]]) {
      const points = [];
      for (let at = 0; at < state.l; at++) {
        const found = rows.filter(({ inside }) => inside[`${kind}Count`][at]).map(({ inside }) => inside[kind][at] / inside[`${kind}Count`][at]);
        if (found.length) points.push([at + 1, spread(found)[0]]);
      }
      series.gates.push({ colour, dash, points });
    }
  }
  const floor = { colour: "currentColor", dash: "5 3", points: ALPHAS.map((alpha) => [alpha, alpha ** state.l]) };
  drawLines(byId("chart-error"), { series: [...series.error, floor], mark: state.alpha, words: "Error against α",
    x: { low: 0, high: 0.9, name: "α, the fraction of outliers in test prompts" }, y: { low: 0, high: 1 } });
  const most = Math.max(1, ...series.loss.flatMap(({ points }) => points.map((p) => p[1])));
  drawLines(byId("chart-loss"), { series: series.loss, words: "Training loss by step", x: { low: 0, high: state.t, name: "step" }, y: { low: 0, high: Math.min(most, 2) } });
  const tall = Math.min(2, Math.max(0.05, ...series.gates.flatMap(({ points }) => points.map((p) => p[1]))));
  drawLines(byId("chart-gates"), { series: series.gates, words: "Gates by distance from the query", x: { low: 1, high: state.l, name: "distance from the query" }, y: { low: 0, high: tall } });
  drawKernel();
  drawTable(chosen);
  drawPrompt();
  if (results.size && !document.body.dataset.first) document.body.dataset.first = Math.round(performance.now() - started);
  const all = [...results.values()], done = all.filter((row) => row.prompts >= 2000 || row.diverged >= 0).length, wanted = chosen.length * state.seeds;
  byId("progress").textContent = `${all.length} of ${wanted} seeds begun, ${done} finished; ${workers.length} workers`;
  if (done === wanted) document.body.dataset.done = Math.round(performance.now() - started);
}

function drawKernel() {
  const rows = seedsOf(shownModel);
  if (!rows.length) return;
  const kernel = rows[0].kernel.map((row, i) => row.map((_, j) => rows.reduce((sum, r) => sum + r.kernel[i][j], 0) / rows.length));
  const fit = fitTime(kernel, laplacian(taskPairs(state.tasks, state.m1), state.m1), state.delta);
  byId("kernel").replaceChildren(heatMap(kernel, "W_BᵀW_C over relevant patterns"), heatMap(fit.kernel, "δ² exp(2τL)"));
  byId("fit").textContent = `Left: W_BᵀW_C of ${CONTENT.models[shownModel].label}, mean over seeds. Right: δ² exp(2τL) with τ = ${fit.time.toFixed(2)} fitted; R² = ${fit.r2.toFixed(3)}.`;
}

// The same as numbers: also what a screen reader reads.
function drawTable(chosen) {
  const at = ALPHAS.reduce((best, alpha, i) => (Math.abs(alpha - state.alpha) < Math.abs(ALPHAS[best] - state.alpha) ? i : best), 0);
  byId("at").textContent = `error at α = ${ALPHAS[at]}`;
  byId("numbers").replaceChildren(...chosen.map((key) => {
    const rows = seedsOf(key), row = element("tr"), name = element("th", { scope: "row" }), dot = element("i", { class: "dot" });
    const lost = [...results.values()].filter((one) => one.key === key && one.diverged >= 0).length;
    dot.style.background = CONTENT.models[key].colour;
    name.append(dot, document.createTextNode(CONTENT.models[key].label));
    const mean = (pick) => (rows.length ? spread(rows.map(pick))[0].toFixed(3) : "–");
    row.append(name, ...[mean((r) => r.wrong[at] / r.prompts), mean((r) => r.wrong[0] / r.prompts), mean((r) => r.inside.same / r.inside.prompts),
      mean((r) => r.inside.other / r.inside.prompts), rows.length ? String(Math.min(...rows.map((r) => r.step))) : "–", String(lost)].map((text) => element("td", {}, text)));
    return row;
  }));
}

// The address: read now, and whenever it changes by hand.
function open() {
  const { state: read, problem } = readAddress(location.hash);
  complain(problem ? `This address cannot be used: ${problem} The usual settings are shown.` : "");
  state = read || usualState();
  show();
  start();
}
makeControls();
addEventListener("hashchange", open);
open();
