// What letters mean: a tooltip for mouse, finger and keyboard. What a letter means depends on the paper of its section.
const terms = read("terms");
const tip = document.getElementById("tip");
let explained = null; // the element whose tooltip is shown

function meaning(place) {
  const paper = place.closest("[data-paper]")?.dataset.paper;
  return (terms[paper] ?? terms.M)[place.textContent];
}

function explain(place) {
  const words = meaning(place);
  if (!words) return;
  hush();
  explained = place;
  tip.textContent = words;
  tip.hidden = false;
  place.setAttribute("aria-describedby", "tip");
  stand();
}

function stand() {
  const [at, box] = [explained.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.width - 8));
  const above = at.top - box.height - 6;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : at.bottom + 6}px`;
}

function hush() {
  explained?.removeAttribute("aria-describedby");
  explained = null;
  tip.hidden = true;
}

const termAt = (event) => event.target.closest?.("abbr");
for (const kind of ["pointerover", "focusin", "click"]) {
  document.addEventListener(kind, (event) => {
    const place = termAt(event);
    if (place) explain(place);
    else if (kind !== "focusin" || explained) hush();
  });
}
document.addEventListener("focusout", hush);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });
addEventListener("scroll", () => { if (explained) stand(); }, { passive: true, capture: true });
