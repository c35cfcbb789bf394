// The prompt editor: one test prompt of seed 0, example by example. What a hand does to it is kept in the state, and so in
// the address: an order of examples, and per example a label, an outlier or a gate.
"use strict";

const BARS = ["attention", "gate", "vote"];
const editor = { drawn: [], rows: [], columns: [], dragged: -1 };

// Take test prompt `index` of seed 0 and what was done to it; the last token is the query.
function takePrompt(test, index, edits) {
  const drawing = makeDrawing(test), p = makeBlock(test.length);
  draw(drawing, p, 0, STREAM.TEST, 0, index - (index % LANES));
  editor.drawn = Array.from({ length: test.length + 1 }, (_, i) => {
    const e = i * LANES + (index % LANES);
    return { relevant: p.relevant[e], irrelevant: p.irrelevant[e], outlier: p.outlier[e] || drawing.outlierRow, kappa: p.kappa[e],
      flag: p.flag[e], label: p.label[e], truth: p.truth[e] };
  });
  editor.rows = edits ? readEdits(edits) : editor.drawn.slice(0, -1).map((_, from) => ({ from, marks: "" }));
}

// The examples as they are now, by place; `hand` is what happens to the gate: a place in HANDS.
function examples(test) {
  return editor.rows.map(({ from, marks }) => {
    const one = editor.drawn[from], by = (choices) => [...choices].findIndex((mark) => marks.includes(mark));
    const label = [one.label, 1, -1][by("pm") + 1], flag = [one.flag, 1, 0][by("vc") + 1];
    return { ...one, label, flag, hand: by("lso") >= 0 ? by("lso") : flag ? HANDS.indexOf(test.gates) : 0 };
  });
}

// Set one kind of mark ("pm", "vc" or "lso") of an example.
function setMark(at, kind, mark) {
  const row = editor.rows[at], rest = [...row.marks].filter((one) => !kind.includes(one));
  row.marks = ["pm", "vc", "lso"].map((marks) => [...rest, mark].find((one) => marks.includes(one)) || "").join("");
}

function moveExample(from, to) {
  editor.rows.splice(to, 0, ...editor.rows.splice(from, 1));
}

function writeEdits() {
  const plain = editor.rows.every(({ from, marks }, i) => from === i && !marks);
  return plain ? "" : editor.rows.map(({ from, marks }) => `${from}${marks}`).join(",");
}

// Answer the prompt with the tables of one model: attention, gate and vote of every example, and their sum.
function answerPrompt(shown, model, test) {
  const rows = makeDrawing(test).rows, p = makeBlock(test.length), s = makeScratch(test.length, rows), hand = new Int32Array((test.length + 1) * LANES);
  const tokens = examples(test);
  [...tokens, editor.drawn[test.length]].forEach((token, i) => {
    const e = i * LANES;
    for (const name of ["relevant", "irrelevant", "kappa", "truth"]) p[name][e] = token[name];
    p.label[e] = i < test.length ? token.label : 0;
    p.outlier[e] = token.flag ? token.outlier : 0;
    p.strength[e] = token.flag ? test.strength : 0;
    hand[e] = token.hand || 0;
  });
  const gate = { kind: KINDS.indexOf(model.kind), first: model.first, second: model.second, number: shown.number };
  forwardByHand(gate, p, s, shown.products, shown.logits, hand);
  const gates = Array.from(gatesOf(s, 0)), attention = tokens.map((_, i) => s.score[i * LANES]);
  return { attention, gate: gates, vote: tokens.map(({ label }, i) => gates[i] * attention[i] * label), sum: s.output[0] };
}

// Make the columns once per length; `act` is told of every edit, with the place that shall have the focus.
function makeEditor(holder, length, act) {
  const names = element("div", { class: "example names", "aria-hidden": "true" });
  ["pattern", "label", "outlier", "gate is"].forEach((name) => names.append(element("span", {}, name)));
  BARS.forEach((name) => names.append(element("span", { class: "tall" }, name)));
  editor.columns = Array.from({ length }, (_, i) => makeColumn(i, act));
  editor.query = element("span", { class: "pattern same" });
  const last = element("div", { class: "example query" });
  last.append(editor.query, element("span", {}, "query"));
  holder.replaceChildren(names, ...editor.columns.map(({ column }) => column), last);
}

function makeColumn(i, act) {
  const column = element("div", { class: "example", role: "group" }), button = (name) => element("button", { type: "button", class: name });
  const parts = { column, grip: button("pattern"), label: button("label"), outlier: button("spoil"), gate: button("hand"), bars: {} };
  parts.grip.dataset.at = i;
  parts.grip.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: editor.rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to >= editor.rows.length) return;
    moveExample(i, to);
    act(to);
  });
  parts.label.addEventListener("click", () => { setMark(i, "pm", parts.now.label > 0 ? "m" : "p"); act(); });
  parts.outlier.addEventListener("click", () => { setMark(i, "vc", parts.now.flag ? "c" : "v"); act(); });
  parts.gate.addEventListener("click", () => { setMark(i, "lso", "lso"[(parts.now.hand + 1) % (parts.now.flag ? 3 : 2)]); act(); });
  column.append(parts.grip, parts.label, parts.outlier, parts.gate);
  for (const name of BARS) {
    const bar = element("div", { class: "bar" });
    bar.append(element("i"));
    parts.bars[name] = bar;
    column.append(bar);
  }
  return parts;
}

// Dragging, with pointers of all kinds: a mouse drags a column, a finger its name (the rest of the row scrolls).
function letDrag(holder, act) {
  holder.addEventListener("pointerdown", (event) => {
    const at = editor.columns.findIndex(({ column }) => column.contains(event.target)), grip = event.target.closest(".pattern");
    if (at < 0 || event.button !== 0 || (!grip && (event.pointerType !== "mouse" || event.target.closest("button")))) return;
    editor.dragged = at;
    holder.setPointerCapture(event.pointerId);
    event.preventDefault(); // selects no text
    editor.columns[at].grip.focus();
    act(at);
  });
  holder.addEventListener("pointermove", (event) => {
    if (editor.dragged < 0) return;
    const { left, right } = holder.getBoundingClientRect(), x = Math.max(left, Math.min(event.clientX, right));
    if (right - x < 60) holder.scrollLeft += 10; // the query covers the end
    if (x - left < 100) holder.scrollLeft -= 10; // the names cover the beginning
    const to = editor.columns.findLastIndex(({ column }) => column.getBoundingClientRect().left <= x);
    if (to < 0 || to === editor.dragged) return;
    moveExample(editor.dragged, to);
    editor.dragged = to;
    act(to);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    holder.addEventListener(end, () => {
      if (editor.dragged < 0) return;
      editor.dragged = -1;
      act();
    });
  }
}

// Show the prompt and what a model makes of it. Returns the answer in words.
function drawEditor(answer, test, label) {
  const tokens = examples(test), query = editor.drawn[test.length];
  const tops = Object.fromEntries(BARS.map((name) => [name, Math.max(1e-12, ...answer[name].map(Math.abs))]));
  tokens.forEach((token, i) => {
    const parts = editor.columns[i], name = `µ${token.relevant + 1}`, same = token.relevant === query.relevant;
    parts.now = token;
    parts.column.className = `example${token.flag ? " outlier" : ""}${i === editor.dragged ? " dragged" : ""}`;
    parts.column.setAttribute("aria-label", `example ${i + 1} of ${tokens.length}, ${token.flag ? "outlier" : "clean"}, attention ${short(answer.attention[i])}, gate ${short(answer.gate[i])}, vote ${short(answer.vote[i])}`);
    parts.grip.textContent = name;
    parts.grip.classList.toggle("same", same);
    parts.grip.setAttribute("aria-label", `${name}${same ? ", as the query" : ""}, place ${i + 1}: arrow keys move this example`);
    parts.label.textContent = token.label > 0 ? "+1" : "−1";
    parts.label.setAttribute("aria-label", `label ${token.label > 0 ? "plus" : "minus"} one: flip it`);
    parts.outlier.textContent = "v*";
    parts.outlier.setAttribute("aria-label", "outlier");
    parts.outlier.setAttribute("aria-pressed", token.flag ? "true" : "false");
    parts.gate.textContent = ["auto", "shut", "open"][token.hand];
    parts.gate.classList.toggle("set", token.hand > 0);
    parts.gate.setAttribute("aria-label", `gate ${HANDS[token.hand]}: change it by hand`);
    for (const bar of BARS) {
      const value = answer[bar][i], fill = parts.bars[bar].firstChild;
      parts.bars[bar].title = `${bar} ${value.toPrecision(3)}`;
      fill.className = value < 0 ? "minus" : "plus";
      fill.style.height = `${(100 * Math.abs(value)) / tops[bar]}%`;
    }
  });
  editor.query.textContent = `µ${query.relevant + 1}`;
  const right = answer.sum * query.truth > 0;
  byId("answer").textContent = `${label}: the votes add up to ${answer.sum.toPrecision(3)}, so it answers ${answer.sum > 0 ? "+1" : answer.sum < 0 ? "−1" : "nothing"}; the truth is ${query.truth > 0 ? "+1" : "−1"}. ${right ? "Right." : "Wrong."}`;
  byId("answer").className = right ? "verdict-line right" : "verdict-line wrong";
}
