// The same in Python and on the command line.
"use strict";

const tidy = (x) => String(Number(x.toPrecision(12)));

// Options of a model and what its recipe freezes, as iclab has them; w = 0 is for models with a w.
function optionsOf(key, state) {
  const { form, options } = CONTENT.models[key], held = state.w === "zero" && form.vector;
  return { options: { init_scale: state.delta, ...options, ...(held ? { gate_scale: 0 } : {}) }, held };
}

// Lines that set the gates of outliers by hand.
const BY_HAND = {
  learned: () => [],
  shut: () => ["run = run.intervene(attention=shut)"],
  open: (gated) => (gated ? ['run = run.intervene(gates=run.activations(clean, "gates", count=2000))  # of the same prompts without outliers'] : []),
};
const SHUT = ["", "def shut(scores, visit):  # the votes of outliers count for nothing",
  "    drawn = test.draw([visit.seed], iclab.prompts.Stream.TEST, first=visit.first, count=len(scores))",
  "    scores[torch.from_numpy(drawn.outlier[0])] = 0.0", ""];

function asPython(state) {
  const worst = state.labels === "worst", { gates } = state;
  const norms = ["relevant", "irrelevant", "outlier"].map((kind) => `${kind}_norm=${state.beta}`).join(", ");
  const lines = [...(gates === "shut" ? ["import torch"] : []), "import iclab", "",
    `patterns = iclab.Patterns(relevant=${state.m1}, irrelevant=${state.m2}, outlier=${state.v}, ${norms})`,
    "prompts = iclab.Prompts(", `    patterns=patterns, tasks="${state.tasks}", context_length=${state.l}, irrelevant_scale=${state.k},`,
    `    outliers=iclab.Outliers(fraction=${state.pa}, scale=${state.ka}),`, ")",
    "test = iclab.Prompts(", `    patterns=patterns, context_length=${state.l}, irrelevant_scale=${state.kt},`,
    `    outliers=iclab.Outliers(fraction=${state.alpha}, scale=${state.kat}, ${worst ? "" : `labels="${state.labels}", `}placement="${state.placement}", patterns="${state.patterns}"),`, ")",
    ...(gates === "shut" ? SHUT : gates === "open" ? ["clean = test.replace(outliers=test.outliers.replace(fraction=0.0))"] : [])];
  for (const key of state.models.split(",")) {
    const { name, form, stepSize } = CONTENT.models[key], { options, held } = optionsOf(key, state);
    const words = Object.entries(options).map(([option, value]) => `"${option}": ${value === true ? "True" : JSON.stringify(value)}`);
    lines.push(`model = iclab.Model(name="${name}", options={${words.join(", ")}})`,
      `recipe = iclab.Recipe(step_size=${tidy(stepSize * state.eta)}, steps=${state.t}, batch_size=${state.b}${held ? ', frozen=("gate",)' : ""})`,
      `run = iclab.train(model, prompts, recipe, seeds=${state.seeds})`,
      ...BY_HAND[gates](form.kind !== "none"),
      `print("${key}", run.error(test, count=2000${worst ? ', labels="worst"' : ""}).mean)`);
  }
  return lines.join("\n");
}

// Command lines that do the same, one per model.
function asCommands(state) {
  if (state.gates !== "learned") return "# Gates set by hand are for Python; with gates = learned, command lines appear here.";
  return state.models.split(",").map((key) => {
    const { name, stepSize } = CONTENT.models[key], { options, held } = optionsOf(key, state);
    const set = Object.entries(options).map(([option, value]) => `--set model.options.${option}=${value}`);
    if (held) set.push("--set 'recipe.frozen=[\"gate\"]'");
    for (const side of ["prompts", "test.test"]) for (const kind of ["relevant", "irrelevant", "outlier"]) set.push(`--set ${side}.patterns.${kind}_norm=${state.beta}`);
    const flags = [`--model ${name}`, `--relevant ${state.m1} --irrelevant ${state.m2} --outlier-pattern-count ${state.v}`,
      `--test-relevant ${state.m1} --test-irrelevant ${state.m2} --test-outlier-pattern-count ${state.v}`,
      `--tasks ${state.tasks} --context-length ${state.l} --irrelevant-scale ${state.k}`,
      `--outlier-fraction ${state.pa} --outlier-scale ${state.ka}`,
      `--test-tasks all --test-context-length ${state.l} --test-irrelevant-scale ${state.kt}`,
      `--test-outlier-fraction ${state.alpha} --test-outlier-scale ${state.kat} --test-placement ${state.placement}`,
      `--test-outlier-patterns ${state.patterns}${state.labels === "worst" ? " --probe worst" : ` --test-outlier-labels ${state.labels}`}`,
      `--step-size ${tidy(stepSize * state.eta)} --steps ${state.t} --batch-size ${state.b} --seeds ${state.seeds} --test-prompts 2000`, ...set];
    return `iclab train ${flags.join(" \\\n  ")}`;
  }).join("\n\n");
}

// Open the section with the code, wherever the page is.
function showCode() {
  const place = byId("code");
  place.open = true;
  place.scrollIntoView({ block: "start" });
  place.querySelector("summary").focus({ preventScroll: true });
}

// Let a button copy a text, and say so for a while.
function letCopy(button, text) {
  const words = button.textContent;
  let back = 0;
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text())) ? "Copied" : "Cannot copy here";
    say(button.textContent);
    clearTimeout(back);
    back = setTimeout(() => { button.textContent = words; }, 2000);
  });
}

// Whether a text could be copied. Pages of plain HTTP have no clipboard, and there the old way is left.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { class: "visually-hidden" }), focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return done;
  }
}
