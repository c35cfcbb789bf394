// The state of the page: every setting within its bounds, and all of it in the address.
"use strict";

const CONTENT = JSON.parse(document.getElementById("content").textContent);
const SETTINGS = CONTENT.settings;

function usualState() {
  const state = { tasks: CONTENT.tasks, models: CONTENT.usualModels };
  for (const { key, usual } of SETTINGS) state[key] = usual;
  for (const [key, words] of Object.entries(CONTENT.choices)) state[key] = words[0];
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
  if (Object.hasOwn(CONTENT.choices, key)) {
    return CONTENT.choices[key].includes(text) ? "" : `must be one of ${CONTENT.choices[key].join(", ")}`;
  }
  if (key === "models") {
    const names = text.split(",");
    const known = names.every((name) => Object.hasOwn(CONTENT.models, name)) && new Set(names).size === names.length;
    return known ? "" : `must be some of ${Object.keys(CONTENT.models).join(", ")}`;
  }
  if (key === "tasks") return /^(all|ring:\d{1,2}|\d-\d(,\d-\d){0,99})$/.test(text) ? "" : "must be all, ring:U or pairs such as 0-1,1-2,2-0";
  return "is not a setting of this page";
}

// What cannot be together, in words.
function contradiction(state) {
  const bad = taskPairs(state.tasks, state.m1).find(([a, b]) => a === b || a >= state.m1 || b >= state.m1);
  const steps = state.tasks.startsWith("ring:") ? Number(state.tasks.slice(5)) : 1;
  if (bad || steps < 1 || steps >= state.m1) return `tasks: must name different patterns, 0 to ${state.m1 - 1}`;
  if (state.patterns === "paper" && state.v !== 3) return "patterns: the paper's mixtures need V = 3";
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
    state[key] = SETTINGS.some((one) => one.key === key) ? Number(text) : text;
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
      placement: state.placement, patterns: state.patterns, tasks: "all" },
    recipe: { batch: state.b, steps: state.t },
  };
}

function engineModel(key, state) {
  const { form, stepSize } = CONTENT.models[key];
  return { ...form, gateScale: 1, initScale: state.delta, stepSize: stepSize * state.eta };
}

const tidy = (x) => String(Number(x.toPrecision(12)));

// Python that does the same.
function asPython(state) {
  const trained = `iclab.Patterns(relevant=${state.m1}, irrelevant=${state.m2}, outlier=${state.v}, relevant_norm=${state.beta}, irrelevant_norm=${state.beta}, outlier_norm=${state.beta})`;
  const lines = ["import iclab", "", `patterns = ${trained}`,
    "prompts = iclab.Prompts(", `    patterns=patterns, tasks="${state.tasks}", context_length=${state.l}, irrelevant_scale=${state.k},`,
    `    outliers=iclab.Outliers(fraction=${state.pa}, scale=${state.ka}),`, ")",
    "test = iclab.Prompts(", `    patterns=patterns, context_length=${state.l}, irrelevant_scale=${state.kt},`,
    `    outliers=iclab.Outliers(fraction=${state.alpha}, scale=${state.kat}, ${state.labels === "worst" ? "" : `labels="${state.labels}", `}placement="${state.placement}", patterns="${state.patterns}"),`, ")"];
  for (const key of state.models.split(",")) {
    const { name, options, stepSize } = CONTENT.models[key];
    const words = Object.entries({ init_scale: state.delta, ...options }).map(([option, value]) => `"${option}": ${value === true ? "True" : JSON.stringify(value)}`);
    lines.push(`model = iclab.Model(name="${name}", options={${words.join(", ")}})`,
      `recipe = iclab.Recipe(step_size=${tidy(stepSize * state.eta)}, steps=${state.t}, batch_size=${state.b})`,
      `run = iclab.train(model, prompts, recipe, seeds=${state.seeds})`,
      `print("${key}", run.error(test, count=2000${state.labels === "worst" ? ', labels="worst"' : ""}).mean)`);
  }
  return lines.join("\n");
}

// Command lines that do the same, one per model.
function asCommands(state) {
  return state.models.split(",").map((key) => {
    const { name, options, stepSize } = CONTENT.models[key];
    const set = Object.entries({ init_scale: state.delta, ...options }).map(([option, value]) => `--set model.options.${option}=${value}`);
    for (const side of ["prompts", "test.test"]) for (const kind of ["relevant", "irrelevant", "outlier"]) set.push(`--set ${side}.patterns.${kind}_norm=${state.beta}`);
    const flags = [`--model ${name}`, `--relevant ${state.m1} --irrelevant ${state.m2} --outlier-pattern-count ${state.v}`,
      `--test-relevant ${state.m1} --test-irrelevant ${state.m2} --test-outlier-pattern-count ${state.v}`,
      `--tasks ${state.tasks} --context-length ${state.l} --irrelevant-scale ${state.k}`,
      `--outlier-fraction ${state.pa} --outlier-scale ${state.ka}`,
      `--test-tasks all --test-context-length ${state.l} --test-irrelevant-scale ${state.kt}`,
      `--test-outlier-fraction ${state.alpha} --test-outlier-scale ${state.kat} --test-placement ${state.placement}`,
      `--test-outlier-patterns ${state.patterns}${state.labels === "worst" ? " --probe worst" : ` --test-outlier-labels ${state.labels}`}`,
      `--step-size ${tidy(stepSize * state.eta)} --steps ${state.t} --batch-size ${state.b} --seeds ${state.seeds}`, ...set];
    return `iclab train ${flags.join(" \\\n  ")}`;
  }).join("\n\n");
}
