// What the workers found, drawn as charts and as a table: mean and range over the seeds of each model.
"use strict";

const ALPHAS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const ENOUGH = 2000;

// Every α that is measured: a grid, and that of the slider.
const alphasOf = (state) => [...new Set([...ALPHAS, state.alpha])].sort((a, b) => a - b);
const shownModel = () => state.shown || state.models.split(",")[0];

function spread(rows) {
  return [rows.reduce((sum, x) => sum + x, 0) / rows.length, Math.min(...rows), Math.max(...rows)];
}

// The seeds of a model that have not diverged.
function seedsOf(key) {
  return [...results.values()].filter((row) => row.key === key && row.diverged < 0);
}

function drawAll() {
  waiting = 0;
  if (!results.size) return; // a change came between
  const chosen = state.models.split(","), rows = seedsOf(shownModel()), found = rows.length > 0 && rows.every((row) => row.kernels.length);
  const mark = found ? { at: drawKernel(rows, shownModel(), state), name: "kernel" } : undefined;
  drawLegend(chosen);
  drawErrors(chosen);
  drawTraining(chosen, mark);
  drawGates(chosen);
  drawTable(chosen);
  if (results.get(`${shownModel()}/0`) !== answered) drawPrompt();
  if (!document.body.dataset.first) document.body.dataset.first = Math.round(performance.now() - started);
  const all = [...results.values()], done = all.filter((row) => row.prompts >= ENOUGH || row.diverged >= 0).length, wanted = chosen.length * state.seeds;
  byId("progress").textContent = `${all.length} of ${wanted} seeds begun, ${done} finished; ${workers.length} workers`;
  if (done === wanted && !document.body.dataset.done) {
    document.body.dataset.done = Math.round(performance.now() - started);
    say([...byId("numbers").rows].map(({ cells }) => `${cells[0].textContent}: ${byId("at").textContent} is ${cells[1].textContent}`).join(". "));
  }
}

// One series per model with seeds: its colour, and the points that `points` makes of them.
function seriesOf(chosen, points, dash = "") {
  return chosen.map((key) => [key, seedsOf(key)]).filter(([, rows]) => rows.length).map(([key, rows]) => ({ colour: CONTENT.models[key].colour, dash, points: points(rows) }));
}

function drawErrors(chosen) {
  const alphas = alphasOf(state);
  const floor = { colour: "currentColor", dash: "5 3", points: ALPHAS.map((alpha) => [alpha, alpha ** state.l]) };
  const errors = seriesOf(chosen, (rows) => alphas.map((alpha, i) => [alpha, ...spread(rows.map((row) => row.wrong[i] / row.prompts))]));
  drawLines(byId("chart-error"), { series: [...errors, floor], mark: { at: state.alpha, name: "α" }, words: "Error against α; the table below has numbers",
    x: { low: 0, high: alphas.at(-1), name: "α, the fraction of outliers in test prompts" }, y: { low: 0, high: 1 } });
}

// Loss and attention by step, from step 1 on a logarithmic axis.
function drawTraining(chosen, mark) {
  const x = { low: 1, high: state.t, log: true, name: "step" };
  const common = (rows, name) => rows[0][name].slice(0, Math.min(...rows.map((row) => row[name].length)));
  const loss = seriesOf(chosen, (rows) => common(rows, "losses").map(([step], i) => [step, ...spread(rows.map((row) => row.losses[i][1]))]));
  const most = Math.max(1, ...loss.flatMap(({ points }) => points.map((p) => p[1])));
  drawLines(byId("chart-loss"), { series: loss, mark, words: "Training loss by step", x, y: { low: 0, high: Math.min(most, 2) } });
  const attention = [1, 2].flatMap((which) => seriesOf(chosen, (rows) => common(rows, "attention").map(([step], i) => [step, spread(rows.map((row) => row.attention[i][which]))[0]]), which > 1 ? "4 3" : ""));
  const sums = attention.flatMap(({ points }) => points.map((p) => p[1]));
  drawLines(byId("chart-attention"), { series: attention, words: "Attention by step", x, y: { low: Math.min(0, ...sums), high: Math.max(1, ...sums) } });
}

function drawGates(chosen) {
  const by = (kind) => (rows) => Array.from({ length: state.l }, (_, at) => {
    const found = rows.filter(({ inside }) => inside[`${kind}Count`][at]).map(({ inside }) => inside[kind][at] / inside[`${kind}Count`][at]);
    return found.length ? [at + 1, spread(found)[0]] : null;
  }).filter(Boolean);
  const series = [...seriesOf(chosen, by("clean")), ...seriesOf(chosen, by("outlier"), "4 3")];
  const tall = Math.min(2, Math.max(0.05, ...series.flatMap(({ points }) => points.map((p) => p[1]))));
  drawLines(byId("chart-gates"), { series, words: "Gates by distance from the query", x: { low: 1, high: state.l, name: "distance from the query" }, y: { low: 0, high: tall } });
}

function drawLegend(chosen) {
  byId("legend").replaceChildren(...chosen.map((key) => {
    const entry = element("span", { class: "entry" });
    entry.append(dotOf(key), document.createTextNode(CONTENT.models[key].label));
    return entry;
  }));
}

function dotOf(key) {
  const dot = element("i", { class: "dot" });
  dot.style.background = CONTENT.models[key].colour;
  return dot;
}

// The same as numbers: also what a screen reader reads.
function drawTable(chosen) {
  const at = alphasOf(state).indexOf(state.alpha);
  byId("at").textContent = `error at α = ${state.alpha}`;
  byId("numbers").replaceChildren(...chosen.map((key) => {
    const rows = seedsOf(key), row = element("tr"), name = element("th", { scope: "row" });
    const lost = [...results.values()].filter((one) => one.key === key && one.diverged >= 0).length;
    name.append(dotOf(key), document.createTextNode(CONTENT.models[key].label));
    const mean = (pick) => (rows.length ? spread(rows.map(pick))[0].toFixed(3) : "–");
    row.append(name, ...[mean((r) => r.wrong[at] / r.prompts), mean((r) => r.wrong[0] / r.prompts), mean((r) => r.inside.same / r.inside.prompts),
      mean((r) => r.inside.other / r.inside.prompts), rows.length ? String(Math.min(...rows.map((r) => r.step))) : "–", String(lost)].map((text) => element("td", {}, text)));
    return row;
  }));
}
