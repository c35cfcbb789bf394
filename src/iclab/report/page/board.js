// The scoreboard: its filters stand in the address (#board?paper=M&verdict=fails), and links to its claims open it.
const board = document.getElementById("board");
const rows = [...document.querySelectorAll(".board tbody tr")];
const filters = [...document.querySelectorAll("[data-filter]")];

function matches(row, kind, value) {
  if (kind === "words") return value.toLowerCase().split(/\s+/).every((word) => row.dataset.search.includes(word));
  if (kind === "model") return row.dataset.model.split(" ").includes(value);
  return row.dataset[kind] === value;
}

function filter() {
  let shown = 0;
  for (const row of rows) {
    row.hidden = !filters.every(({ dataset, value }) => !value || matches(row, dataset.filter, value));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} claims`;
}

function keepInAddress() {
  const asked = new URLSearchParams(filters.filter(({ value }) => value).map(({ dataset, value }) => [dataset.filter, value]));
  history.replaceState(null, "", `#board${asked.size ? `?${asked}` : ""}`);
}

// What the address asks for: a filtered board, or a claim on it.
function followAddress() {
  const [name, asked] = decodeURI(location.hash.slice(1)).split("?");
  const target = document.getElementById(name);
  if (!target || !board.contains(target)) return;
  board.open = true;
  const wanted = new URLSearchParams(asked);
  filters.forEach((control) => { control.value = wanted.get(control.dataset.filter) ?? ""; });
  filter();
  target.scrollIntoView();
}

if (board) {
  filters.forEach((control) => control.addEventListener("input", () => { filter(); keepInAddress(); }));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  filter();
  addEventListener("hashchange", followAddress);
  ready.then(followAddress); // figures have their room by then
  document.addEventListener("click", (event) => {
    if (event.target.closest("a")?.getAttribute("href") === location.hash) followAddress(); // the address stays the same
  });
  let wasOpen = false;
  addEventListener("beforeprint", () => { wasOpen = board.open; board.open = true; });
  addEventListener("afterprint", () => { board.open = wasOpen; });
}
