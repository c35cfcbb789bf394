// The prompt editor: one test prompt, example by example. Its answer is computed here, from the tables of seed 0.
"use strict";

const editor = { prompt: null, key: "", dragged: -1 };

// Take test prompt `index` of seed 0 into an array of examples; the last is the query.
function takePrompt(test, index) {
  const drawing = makeDrawing(test), p = makeBlock(test.length);
  draw(drawing, p, 0, STREAM.TEST, 0, index - (index % LANES));
  editor.prompt = Array.from({ length: test.length + 1 }, (_, i) => {
    const e = i * LANES + (index % LANES);
    return { relevant: p.relevant[e], irrelevant: p.irrelevant[e], outlier: p.outlier[e] || drawing.outlierRow, kappa: p.kappa[e],
      flag: p.flag[e], label: p.label[e], truth: p.truth[e] };
  });
}

// Answer the prompt with the tables of one model: attention, gate and vote of every example, and their sum.
function answerPrompt(shown, model, test) {
  const rows = makeDrawing(test).rows, p = makeBlock(test.length), s = makeScratch(test.length, rows);
  editor.prompt.forEach((token, i) => {
    const e = i * LANES;
    Object.assign(p.relevant, { [e]: token.relevant });
    p.irrelevant[e] = token.irrelevant;
    p.kappa[e] = token.kappa;
    p.label[e] = i < test.length ? token.label : 0;
    p.outlier[e] = token.flag ? token.outlier : 0;
    p.strength[e] = token.flag ? test.strength : 0;
  });
  const gate = { kind: KINDS.indexOf(model.kind), first: model.first, second: model.second, number: shown.number };
  forward(gate, p, s, shown.products, shown.logits);
  const gates = gatesOf(gate, s, 0);
  return {
    gates, sum: s.output[0],
    attention: Array.from({ length: test.length }, (_, i) => s.score[i * LANES]),
    votes: Array.from({ length: test.length }, (_, i) => gates[i] * s.score[i * LANES] * editor.prompt[i].label),
  };
}

function element(name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== "") node.textContent = text;
  return node;
}

function moveExample(from, to) {
  if (to < 0 || to >= editor.prompt.length - 1) return;
  const [token] = editor.prompt.splice(from, 1);
  editor.prompt.splice(to, 0, token);
}

// Draw the prompt as columns: pattern, label, outlier, and bars of what the model makes of it.
function drawEditor(holder, verdict, shown, model, label, test, redraw) {
  if (!editor.prompt || editor.prompt.length !== test.length + 1 || !shown) return;
  const answer = answerPrompt(shown, model, test), query = editor.prompt[test.length], bars = { attention: answer.attention, gate: answer.gates, vote: answer.votes };
  const columns = editor.prompt.slice(0, -1).map((token, i) => {
    const column = element("div", { class: token.flag ? "example outlier" : "example", draggable: "true", role: "group",
      "aria-label": `example ${i + 1} of ${test.length}, µ${token.relevant + 1}, ${token.flag ? "outlier" : "clean"}` });
    const same = token.relevant === query.relevant ? " same" : "";
    const grip = element("button", { type: "button", class: `pattern${same}`, "data-at": i, "aria-label": `µ${token.relevant + 1}: arrow keys move this example` }, `µ${token.relevant + 1}`);
    const flip = element("button", { type: "button", class: "label", "aria-label": `label ${token.label > 0 ? "plus" : "minus"} one: flip it` }, token.label > 0 ? "+1" : "−1");
    const spoil = element("button", { type: "button", "aria-pressed": token.flag ? "true" : "false", "aria-label": "outlier" }, "v*");
    grip.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      moveExample(i, i + by);
      redraw(i + by);
    });
    flip.addEventListener("click", () => { token.label = -token.label; redraw(); });
    spoil.addEventListener("click", () => { token.flag = 1 - token.flag; redraw(); });
    column.addEventListener("dragstart", () => { editor.dragged = i; });
    column.addEventListener("dragover", (event) => event.preventDefault());
    column.addEventListener("drop", (event) => { event.preventDefault(); moveExample(editor.dragged, i); redraw(); });
    column.append(grip, flip, spoil);
    for (const [name, values] of Object.entries(bars)) {
      const top = Math.max(1e-12, ...values.map(Math.abs)), value = values[i];
      const bar = element("div", { class: "bar", title: `${name} ${value.toPrecision(3)}` });
      const fill = element("i", { class: value < 0 ? "minus" : "plus" });
      fill.style.height = `${(100 * Math.abs(value)) / top}%`;
      bar.append(fill);
      column.append(bar);
    }
    return column;
  });
  const names = element("div", { class: "example names", "aria-hidden": "true" });
  ["pattern", "label", "outlier"].forEach((name) => names.append(element("span", {}, name)));
  ["attention", "gate", "vote"].forEach((name) => names.append(element("span", { class: "tall" }, name)));
  const last = element("div", { class: "example query" });
  last.append(element("span", { class: "pattern same" }, `µ${query.relevant + 1}`), element("span", {}, "query"));
  holder.replaceChildren(names, ...columns, last);
  const right = answer.sum * query.truth > 0;
  verdict.textContent = `${label}: the votes add up to ${answer.sum.toPrecision(3)}, so it answers ${answer.sum > 0 ? "+1" : answer.sum < 0 ? "−1" : "nothing"}; the truth is ${query.truth > 0 ? "+1" : "−1"}. ${right ? "Right." : "Wrong."}`;
  verdict.className = right ? "verdict-line right" : "verdict-line wrong";
}
