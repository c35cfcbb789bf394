// The state of the page: every setting within its bounds, and all of it in the address.
"use strict";

const byId = (id) => document.getElementById(id);
const CONTENT = JSON.parse(byId("content").textContent);
const SETTINGS = CONTENT.settings;

// What to look at; a change of these trains nothing. shown: a model, or "" for the first; step: when to look at the
// kernel, 0 for the moment of the law; prompt: the number of the prompt in the editor; edits: what was done to it.
const VIEWS = { shown: "", step: 0, prompt: 0, edits: "" };
const VIEW_LIMITS = { step: 2000, prompt: CONTENT.mostPrompts - 1 };

function usualState() {
  const state = { tasks: CONTENT.tasks, models: CONTENT.usualModels, ...VIEWS };
  for (const { key, usual } of SETTINGS) state[key] = usual;
  for (const { key, options } of CONTENT.choices) state[key] = options[0];
  return state;
}

// Why a value is refused, in words; empty if it is fine. Values come from the address: text that may be anything.
function refuse(key, text) {
  const setting = SETTINGS.find((one) => one.key === key);
  if (setting) {
    const value = Number(text);
    if (!/^-?\d+(\.\d+)?$/.test(text) || value < setting.least || value > setting.most) {
      return `must be a number from ${setting.least} to ${setting.most}`;
    }
    return Number.isInteger(setting.step) && !Number.isInteger(value) ? "must be a whole number" : "";
  }
  const choice = CONTENT.choices.find((one) => one.key === key);
  if (choice) return choice.options.includes(text) ? "" : `must be one of ${choice.options.join(", ")}`;
  if (Object.hasOwn(VIEW_LIMITS, key)) {
    return /^\d{1,5}$/.test(text) && Number(text) <= VIEW_LIMITS[key] ? "" : `must be a whole number from 0 to ${VIEW_LIMITS[key]}`;
  }
  if (key === "shown") return Object.hasOwn(CONTENT.models, text) ? "" : `must be one of ${Object.keys(CONTENT.models).join(", ")}`;
  if (key === "edits") return EDITS.test(text) ? "" : "must be numbers of examples with marks, such as 1,0m,2v,3s";
  if (key === "models") {
    const names = text.split(",");
    const known = names.every((name) => Object.hasOwn(CONTENT.models, name)) && new Set(names).size === names.length;
    return known ? "" : `must be some of ${Object.keys(CONTENT.models).join(", ")}`;
  }
  if (key === "tasks") return /^(all|ring:\d{1,2}|\d-\d(,\d-\d){0,99})$/.test(text) ? "" : "must be all, ring:U or pairs such as 0-1,1-2,2-0";
  return "is not a setting of this page";
}

// An edited prompt, example by example: the number of the drawn example, then what was set by hand: the label (p plus,
// m minus), v with or c without an outlier, the gate (l learned, s shut, o open).
const EDITS = /^\d{1,2}[pm]?[vc]?[lso]?(,\d{1,2}[pm]?[vc]?[lso]?){0,59}$/;

function readEdits(text) {
  return text.split(",").map((word) => ({ from: parseInt(word, 10), marks: word.replace(/^\d+/, "") }));
}

// What cannot be together, in words.
function contradiction(state) {
  const bad = taskPairs(state.tasks, state.m1).find(([a, b]) => a === b || a >= state.m1 || b >= state.m1);
  const steps = state.tasks.startsWith("ring:") ? Number(state.tasks.slice(5)) : 1;
  if (bad || steps < 1 || steps >= state.m1) return `tasks: must name different patterns, 0 to ${state.m1 - 1}`;
  if (state.patterns === "paper" && state.v !== 3) return "patterns: the paper's mixtures need V = 3";
  if (state.gates !== "learned" && state.labels === "worst") return "gates: must be learned if labels are the worst";
  if (state.shown && !state.models.split(",").includes(state.shown)) return `shown: must be one of the models, ${state.models}`;
  const order = state.edits ? readEdits(state.edits).map(({ from }) => from) : [];
  if (order.length && (order.length !== state.l || new Set(order).size !== state.l || Math.max(...order) >= state.l)) {
    return `edits: must name each of the ${state.l} examples once, 0 to ${state.l - 1}`;
  }
  return "";
}

// Read an address such as #pa=0.4&models=mamba. Returns the state, or the reason why it is refused.
function readAddress(hash) {
  const state = usualState();
  if (hash.length > 4000) return { problem: "The address is too long." };
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const at = part.indexOf("=");
    let key = part, text = "";
    try {
      [key, text] = [part.slice(0, at), decodeURIComponent(part.slice(at + 1))];
    } catch {
      return { problem: "The address cannot be read." };
    }
    const reason = at < 0 ? "has no value" : refuse(key, text);
    if (reason) return { problem: `${key.slice(0, 20)} = ${text.slice(0, 40)}: ${reason}.` };
    state[key] = typeof state[key] === "number" ? Number(text) : text;
  }
  const problem = contradiction(state);
  return problem ? { problem: `${problem}.` } : { state };
}

// The address of a state: what differs from the usual.
function writeAddress(state) {
  const usual = usualState(), keys = Object.keys(usual).filter((key) => state[key] !== usual[key]);
  return keys.map((key) => `${key}=${state[key]}`).join("&");
}

// The distributions and the recipe of a state, as the engine takes them.
function describe(state) {
  const shared = { dimension: CONTENT.dimension, relevant: state.m1, irrelevant: state.m2, outlier: state.v,
    norm: state.beta, length: state.l };
  return {
    training: { ...shared, scale: state.k, fraction: state.pa, strength: state.ka, labels: "random",
      placement: "random", patterns: "training", tasks: state.tasks },
    test: { ...shared, scale: state.kt, fraction: state.alpha, strength: state.kat, labels: state.labels,
      placement: state.placement, patterns: state.patterns, gates: state.gates, tasks: "all" },
    recipe: { batch: state.b, steps: state.t },
  };
}

function engineModel(key, state) {
  const { form, stepSize } = CONTENT.models[key];
  const held = state.w === "zero";
  return { ...form, gateScale: held ? 0 : 1, held, initScale: state.delta, stepSize: stepSize * state.eta };
}
