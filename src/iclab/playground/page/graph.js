// The training tasks as a graph: patterns in a circle, an edge for each two that a task tells apart. A click on an edge
// (Enter or Space on the keyboard) adds both directions of the task, or takes them away.
"use strict";

function drawGraph(holder, state, change) {
  const words = `${state.m1}: ${state.tasks}`;
  if (holder.dataset.drawn === words) return;
  holder.dataset.drawn = words;
  const n = state.m1, pairs = taskPairs(state.tasks, n), has = new Set(pairs.map((pair) => pair.join("-")));
  const at = (i) => [120 + 92 * Math.sin((2 * Math.PI * i) / n), 112 - 92 * Math.cos((2 * Math.PI * i) / n)];
  const svg = make("svg", { viewBox: "0 0 240 224", role: "group", "aria-label": `Training tasks: ${pairs.length} of ${n * (n - 1)}` });
  for (let a = 0; a < n; a++) {
    for (let b = a + 1; b < n; b++) {
      const on = has.has(`${a}-${b}`) || has.has(`${b}-${a}`), [x1, y1] = at(a), [x2, y2] = at(b);
      const edge = make("g", { class: on ? "edge on" : "edge", role: "checkbox", tabindex: 0, "aria-checked": on,
        "aria-label": `task µ${a + 1} against µ${b + 1}`, "data-edge": `${a}-${b}` });
      edge.append(make("line", { x1, y1, x2, y2, class: "reach" }), make("line", { x1, y1, x2, y2, class: "shown" }));
      const toggle = () => {
        const rest = pairs.filter(([i, j]) => !((i === a && j === b) || (i === b && j === a)));
        const next = on ? rest : rest.concat([[a, b], [b, a]]);
        if (next.length) change(taskWords(next, n), `${a}-${b}`);
      };
      edge.addEventListener("click", toggle);
      edge.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          toggle();
        }
      });
      svg.append(edge);
    }
  }
  for (let i = 0; i < n; i++) {
    const [x, y] = at(i);
    svg.append(make("circle", { cx: x, cy: y, r: 14, class: "node" }), make("text", { x, y: y + 4, "text-anchor": "middle" }, `µ${i + 1}`));
  }
  holder.replaceChildren(svg);
}

// The shortest words for a set of pairs.
function taskWords(pairs, n) {
  const text = pairs.slice().sort((p, q) => p[0] - q[0] || p[1] - q[1]).map((pair) => pair.join("-")).join(",");
  const known = ["all", ...Array.from({ length: n - 1 }, (_, k) => `ring:${k + 1}`)];
  return known.find((word) => taskPairs(word, n).map((pair) => pair.join("-")).join(",") === text) || text;
}
