// The page: controls change the state, the state starts the workers, their pictures are drawn.
"use strict";

let state = usualState(), generation = 0, results = new Map(), waiting = 0, started = 0;
const PAUSE = 100; // milliseconds between pictures after the first, so that drawing leaves the cores to training

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

// On narrow screens, settings are a sheet that opens at the bottom.
const narrow = matchMedia("(max-width: 800px)");
const foldSettings = () => { byId("settings").open = !narrow.matches; };
narrow.addEventListener("change", foldSettings);
foldSettings();

// Workers, one per core, made from the scripts of this page.
const code = [byId("engine").textContent, byId("worker").textContent].join("\n");
const source = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
const cores = Math.max(1, Math.min(navigator.hardwareConcurrency || 2, 16));
const workers = Array.from({ length: cores }, () => new Worker(source));
for (const worker of workers) {
  worker.onmessage = ({ data }) => {
    if (data.generation !== generation) return;
    results.set(`${data.key}/${data.seed}`, data);
    waiting ||= setTimeout(() => requestAnimationFrame(drawAll), document.body.dataset.first ? PAUSE : 0);
  };
}

// Start again from the state; the newest change wins.
function start() {
  const jobs = workers.map(() => []), about = describe(state);
  generation++;
  clearTimeout(waiting);
  waiting = 0;
  results = new Map();
  started = performance.now();
  delete document.body.dataset.first;
  delete document.body.dataset.done;
  let next = 0;
  for (let seed = 0; seed < state.seeds; seed++) {
    for (const key of state.models.split(",")) jobs[next++ % workers.length].push({ key, seed, model: engineModel(key, state) });
  }
  workers.forEach((worker, i) => worker.postMessage({ generation, jobs: jobs[i], alphas: alphasOf(state), ...about }));
}

// Take a change over: into the address, the controls and the workers. Refuse what cannot be.
function change(changes) {
  const next = { ...state, ...changes };
  if (next.v !== 3 && next.patterns === "paper") next.patterns = "training";
  if (next.labels === "worst" && changes.gates === undefined) next.gates = "learned";
  if (next.shown && !next.models.split(",").includes(next.shown)) next.shown = "";
  if (changes.l !== undefined && changes.edits === undefined) next.edits = "";
  if (changes.m1 !== undefined && contradiction(next)) next.tasks = `ring:${Math.min(3, next.m1 - 1)}`;
  const problem = contradiction(next);
  complain(problem && `${problem}.`);
  if (!problem) {
    state = next;
    keepAddress();
    start();
  }
  show();
}

// Go to a preset: the usual settings but for some changes, and a figure to look at.
function jump({ changes, place }) {
  endTour();
  change({ ...usualState(), ...changes });
  pointAt(place);
}

// The preset with the settings of the page, whatever is looked at; of several the one that is chosen.
function presetOf(state) {
  const usual = usualState(), settings = Object.keys(usual).filter((key) => !Object.hasOwn(VIEWS, key));
  const same = CONTENT.presets.filter(({ changes }) => settings.every((key) => state[key] === (changes[key] ?? usual[key])));
  return same.find(({ key }) => key === byId("preset").value) || same[0];
}

// Put a frame around one figure, or around none.
function pointAt(place) {
  document.querySelector(".place")?.classList.remove("place");
  if (!place) return;
  byId(place).closest("figure").classList.add("place");
  byId(place).closest("figure").scrollIntoView({ block: "nearest" });
}

// Look at something else: nothing is trained again.
function look(changes) {
  Object.assign(state, changes);
  keepAddress();
}

// Safari refuses more than 100 changes of the address in 30 seconds; the last one must come through.
let later = 0;
function keepAddress() {
  const words = writeAddress(state);
  clearTimeout(later);
  try {
    history.replaceState(null, "", words ? `#${words}` : location.pathname + location.search);
  } catch {
    later = setTimeout(keepAddress, 1000);
  }
}

function complain(words) {
  byId("problem").textContent = words;
  byId("problem").hidden = !words;
}

// Sliders and other controls, made once.
function makeControls() {
  for (const setting of SETTINGS) {
    const { key, symbol, words, least, most, step } = setting;
    const row = element("label", { class: "slider", for: `set-${key}` });
    const input = element("input", { type: "range", id: `set-${key}`, min: least, max: most, step, "aria-label": `${symbol}, ${words}` });
    row.append(element("span", { class: "symbol" }, symbol), element("span", { class: "words" }, words), element("output", { id: `out-${key}` }), input);
    input.addEventListener("input", () => change({ [key]: Number(input.value) }));
    byId(`group-${setting.group}`).append(row);
  }
  for (const { key, words, options, group } of CONTENT.choices) {
    const row = element("label", { class: "choice" }, words);
    const select = element("select", { id: `set-${key}` });
    for (const word of options) select.append(element("option", { value: word }, word));
    select.addEventListener("change", () => change({ [key]: select.value }));
    row.append(select);
    byId(`group-${group}`).append(row);
  }
  for (const [key, { label }] of Object.entries(CONTENT.models)) {
    const row = element("label", { class: "model" }), box = element("input", { type: "checkbox", id: `model-${key}` });
    box.addEventListener("change", () => {
      const names = Object.keys(CONTENT.models).filter((name) => byId(`model-${name}`).checked);
      if (names.length) change({ models: names.join(",") });
      else box.checked = true;
    });
    row.append(box, dotOf(key), document.createTextNode(label));
    byId("models").append(row);
  }
  byId("preset").append(element("option", { value: "" }, "none of these"));
  for (const { key, title } of CONTENT.presets) byId("preset").append(element("option", { value: key }, title));
  byId("preset").addEventListener("change", () => {
    const preset = CONTENT.presets.find(({ key }) => key === byId("preset").value);
    if (preset) jump(preset);
    else show();
  });
  byId("reset").addEventListener("click", () => { jump({ changes: {}, place: "" }); });
  byId("which").addEventListener("change", () => { look({ shown: byId("which").value, step: 0 }); show(); drawAll(); });
  letCopy(byId("copy"), () => location.href);
  for (const name of ["python", "commands"]) letCopy(byId(`copy-${name}`), () => byId(name).textContent);
  byId("as-code").addEventListener("click", showCode);
  byId("kernel-step").addEventListener("input", ({ target }) => { look({ step: Number(target.dataset.steps.split(",")[target.value]) }); drawAll(); });
  byId("moment").addEventListener("click", () => { look({ step: 0 }); drawAll(); });
  byId("another").addEventListener("click", () => { look({ prompt: (state.prompt + 1) % CONTENT.mostPrompts, edits: "" }); newPrompt(); });
  byId("undo").addEventListener("click", () => { look({ edits: "" }); newPrompt(); });
  letDrag(byId("editor"), edited);
}

// Let the controls show the state.
function show() {
  for (const { key } of SETTINGS) {
    byId(`set-${key}`).value = state[key];
    byId(`out-${key}`).textContent = tidy(state[key]);
  }
  for (const { key } of CONTENT.choices) byId(`set-${key}`).value = state[key];
  byId("set-patterns").querySelector("[value=paper]").disabled = state.v !== 3;
  byId("preset").value = presetOf(state)?.key ?? "";
  const chosen = state.models.split(","), shown = shownModel();
  for (const key of Object.keys(CONTENT.models)) byId(`model-${key}`).checked = chosen.includes(key);
  byId("which").replaceChildren(...chosen.map((key) => element("option", { value: key }, CONTENT.models[key].label)));
  byId("which").value = shown;
  drawGraph(byId("graph"), state, (tasks, edge) => {
    change({ tasks });
    byId("graph").querySelector(`[data-edge="${edge}"]`)?.focus();
  });
  byId("tasks").textContent = state.tasks;
  byId("python").textContent = asPython(state);
  byId("commands").textContent = asCommands(state);
  drawConditions(byId("conditions"), byId("covered"), state, shown);
  newPrompt();
}

function newPrompt() {
  takePrompt(describe(state).test, state.prompt, state.edits);
  if (editor.columns.length !== state.l) makeEditor(byId("editor"), state.l, edited);
  drawPrompt();
}

let answered; // the result that the prompt was last answered with

function drawPrompt() {
  const { test } = describe(state), key = shownModel(), shown = results.get(`${key}/0`), { form, label } = CONTENT.models[key];
  answered = shown;
  byId("prompt-number").textContent = state.prompt;
  byId("undo").disabled = !state.edits;
  if (shown?.products) drawEditor(answerPrompt(shown, form, test), test, label);
}

// After an edit: keep it, show it, and say what came of it.
function edited(focus) {
  look({ edits: writeEdits() });
  drawPrompt();
  if (focus !== undefined) editor.columns[focus].grip.focus();
  say(byId("answer").textContent);
}

// For screen readers: only what somebody waits for.
function say(words) {
  byId("said").textContent = words;
}

// The address: read now, and whenever it changes by hand.
function open() {
  const { state: read, problem } = readAddress(location.hash);
  complain(problem ? `This address cannot be used: ${problem} The usual settings are shown.` : "");
  state = read || usualState();
  start();
  show();
}
makeControls();
addEventListener("hashchange", open);
open();
