// Stepper: a prompt example by example, with the attention, gate and vote of each model and the sum of votes.
const STRIP = { left: 76, cell: 30, height: 258, chips: 38, attention: 94, gate: 154, vote: 184, sum: 232 };
const HEIGHTS = { attention: 28, gate: 28, vote: 18, sum: 20 }; // of the largest bar in each row
const rounded = (value) => value.toPrecision(3).replace("-", "−");
const signed = (value) => (value > 0 ? "+" : "−");
const isWrong = (token) => token.label !== token.true_label;

function strip(model, prompt, view, read) {
  const { left, cell, height } = STRIP;
  const count = prompt.tokens.length;
  const sums = [];
  view.vote.reduce((total, vote, i) => (sums[i] = total + vote), 0);
  const scale = {};
  for (const [row, list] of Object.entries({ attention: view.attention, gate: view.gate, vote: view.vote, sum: sums })) {
    scale[row] = HEIGHTS[row] / Math.max(...list.map(Math.abs), 1e-12);
  }
  const parts = [];
  const text = (x, y, words, kind) => parts.push(`<text x="${x}" y="${y}" class="${kind}">${safe(words)}</text>`);
  text(0, 14, model.name, "head");
  text(0, STRIP.chips, "examples", "quiet");
  for (const row of Object.keys(HEIGHTS)) {
    text(0, STRIP[row], row, "quiet");
    parts.push(`<line class="axis" x1="${left}" x2="${left + cell * count}" y1="${STRIP[row]}" y2="${STRIP[row]}"/>`);
  }
  prompt.tokens.forEach((token, i) => {
    parts.push(column(token, i, i < read, safe(model.colour), view, scale));
    if (i === read - 1) parts.push(`<rect class="now" x="${left + cell * i + 1}" width="${cell - 2}" y="24" height="${height - 28}" rx="3"/>`);
  });
  const line = sums.slice(0, read).map((sum, i) => `${left + cell * (i + 0.5)},${STRIP.sum - sum * scale.sum}`);
  if (read > 1) parts.push(`<polyline class="run" points="${line.join(" ")}"/>`);
  const end = left + cell * count + 8;
  const answer = read ? sums[read - 1] : 0;
  text(end, STRIP.chips, `query: ${signed(prompt.target)}`, "head");
  text(end, STRIP.sum + 4, `${answer ? signed(answer) : ""}${Math.abs(answer).toFixed(2)}`, "head");
  text(end, STRIP.sum - 14, answer * prompt.target > 0 ? "right" : answer ? "wrong" : "", "quiet");
  const box = `viewBox="0 0 ${end + 62} ${height}" style="max-width: ${1.4 * (end + 62)}px"`; // a short prompt stays small
  return `<svg class="strip" ${box} role="img" aria-label="${safe(model.name)}: sum ${answer.toFixed(2)}">${parts.join("")}</svg>`;
}

// One example: its circle, its label, and a bar in each row.
function column(token, i, isRead, colour, view, scale) {
  const { left, cell, height } = STRIP;
  const x = left + cell * i;
  const middle = x + cell / 2;
  const shade = token.outlier ? `<rect class="out" x="${x + 1}" width="${cell - 2}" y="24" height="${height - 28}"/>` : "";
  const look = token.same ? `fill="${colour}"` : 'fill="none" stroke="currentColor" stroke-width="1.3"';
  const label = `<text class="label${isWrong(token) ? " wrong" : ""}" x="${middle}" y="56">${signed(token.label)}${isWrong(token) ? "!" : ""}</text>`;
  const bars = ["attention", "gate", "vote"].map((row) => {
    const size = view[row][i] * scale[row];
    const top = Math.min(STRIP[row], STRIP[row] - size);
    return `<rect x="${x + 7}" width="${cell - 14}" y="${top}" height="${Math.abs(size)}" fill="${colour}" opacity="${row === "vote" ? 0.95 : 0.6}"/>`;
  });
  return `<g class="${isRead ? "" : "unread"}">${shade}<circle cx="${middle}" cy="34" r="7" ${look}/>${label}${bars.join("")}</g>`;
}

// Models of several layers have gates in each of them; their answers are no sums of votes, so they have no strip.
const gatesOf = (view) => view.gates ?? [view.gate];

// The sentences of a prompt: label, text with the trigger marked, and below it the gates of each model.
function sentences(data, prompt, views, read) {
  if (prompt.query === undefined) return "";
  const items = prompt.tokens.map((token, i) => {
    const gates = data.models.map((model, m) => {
      const layers = gatesOf(views[m]);
      if (layers.flat().every((gate) => gate === 1)) return ""; // a model without gates
      const bars = layers.map((gates) => {
        const width = (100 * gates[i]) / Math.max(...gates, 1e-12);
        return `<b><i style="width:${width.toFixed(1)}%;background:${safe(model.colour)}"></i></b>`;
      });
      const numbers = layers.map((gates) => rounded(gates[i])).join(", ");
      return `<span class="gate"><span>${safe(model.name)}: ${layers.length > 1 ? "gates" : "gate"} ${numbers}</span><span class="bars">${bars.join("")}</span></span>`;
    });
    const kind = `${i < read ? "" : "unread"} ${i === read - 1 ? "now" : ""} ${token.outlier ? "out" : ""}`;
    const label = `<b class="${isWrong(token) ? "wrong" : ""}">${signed(token.label)}${isWrong(token) ? "!" : ""}</b>`;
    return `<li class="${kind}">${label} ${marked(token, prompt.mark)}<div>${gates.join("")}</div></li>`;
  });
  return `<ol>${items.join("")}</ol><p class="query"><b>Query</b> (${signed(prompt.target)}): ${safe(prompt.query)}</p>`;
}

function marked(token, trigger) {
  const at = token.outlier ? token.text.indexOf(trigger) : -1;
  if (at < 0) return safe(token.text);
  const end = at + trigger.length;
  return `${safe(token.text.slice(0, at))}<mark>${safe(trigger)}</mark>${safe(token.text.slice(end))}`;
}

function describe(data, prompt, views, read, after) {
  const token = prompt.tokens[read - 1];
  const sentences = [];
  if (token) {
    const what = prompt.query === undefined ? "pattern" : "sentiment";
    const pattern = token.same ? `the query's ${what}` : `the other ${what}`;
    sentences.push(`Example ${read}: ${token.outlier ? (prompt.mark ? "with the trigger" : "an outlier") : "clean"}, ${pattern}, label ${signed(token.label)}1${isWrong(token) ? " (wrong)" : ""}.`);
    data.models.forEach((model, m) => {
      if (views[m].gates) {
        sentences.push(`${model.name}: gates by layer ${views[m].gates.map((gates) => rounded(gates[read - 1])).join(", ")}.`);
        return;
      }
      const [attention, gate, vote] = ["attention", "gate", "vote"].map((row) => rounded(views[m][row][read - 1]));
      sentences.push(`${model.name}: attention ${attention}, gate ${gate}, vote ${vote}.`);
    });
  } else {
    sentences.push("No example has been read yet.");
  }
  const answers = data.models.map((model, m) => `${model.name} ${rounded(views[m].output)}`).join(", ");
  sentences.push(`Answers to the whole prompt after training step ${after}: ${answers}. The right sign is ${signed(prompt.target)}.`);
  return sentences.join(" ");
}

function addStepper(place, data) {
  const part = (name) => place.querySelector(name);
  const [which, when, where, play, status] = [".which", ".when", ".where", ".play", ".status"].map(part);
  let timer = null;
  which.replaceChildren(...data.prompts.map((prompt, i) => new Option(prompt.name, i)));
  when.max = data.steps.length - 1;
  when.value = when.max;
  when.parentElement.hidden = data.steps.length < 2;
  where.max = data.prompts[0].tokens.length;
  where.value = where.max;

  function show() {
    const prompt = data.prompts[which.value];
    const after = data.steps[when.value];
    const count = +where.value;
    const views = data.models.map((model) => model.views[which.value][when.value]);
    when.nextElementSibling.textContent = after;
    when.setAttribute("aria-valuetext", `after step ${after}`);
    where.nextElementSibling.textContent = `${count} of ${prompt.tokens.length}`;
    part(".sentences").innerHTML = sentences(data, prompt, views, count);
    part(".strips").innerHTML = data.models.map((model, m) => (views[m].gates ? "" : strip(model, prompt, views[m], count))).join("");
    status.textContent = describe(data, prompt, views, count, after);
  }
  function move(by) {
    where.value = +where.value + by;
    show();
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    status.ariaLive = "polite";
  }
  function start() {
    if (where.value === where.max) move(-where.max);
    play.textContent = "Stop";
    status.ariaLive = "off"; // it changes too fast to be read out
    timer = setInterval(() => {
      move(1);
      if (where.value === where.max) stop();
    }, 450);
  }
  part(".back").addEventListener("click", () => { stop(); move(-1); });
  part(".on").addEventListener("click", () => { stop(); move(1); });
  play.addEventListener("click", () => (timer ? stop() : start()));
  [which, when, where].forEach((control) => control.addEventListener("input", () => { stop(); show(); }));
  show();
}

const steppers = read("steppers");
document.querySelectorAll("[data-stepper]").forEach((place) => addStepper(place, steppers[place.dataset.stepper]));
