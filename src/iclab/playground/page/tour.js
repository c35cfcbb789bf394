// A tour of six steps: each sets the page up, says what to look at, and leaves everything free to play with.
"use strict";

let tourStep = -1;

function showTour(step) {
  const stops = CONTENT.tour;
  tourStep = Math.max(-1, Math.min(step, stops.length));
  if (tourStep < 0 || tourStep === stops.length) {
    endTour();
    byId("begin").focus();
    return;
  }
  byId("tour").hidden = false;
  const { title, words, place, changes } = stops[tourStep];
  byId("tour-title").textContent = `${tourStep + 1} of ${stops.length}: ${title}`;
  byId("tour-words").textContent = words;
  byId("back").disabled = tourStep === 0;
  byId("next").textContent = tourStep === stops.length - 1 ? "Done" : "Next";
  change({ ...usualState(), ...changes });
  pointAt(place);
}

function endTour() {
  tourStep = -1;
  byId("tour").hidden = true;
  pointAt("");
}

byId("begin").addEventListener("click", () => { showTour(0); byId("next").focus(); });
byId("back").addEventListener("click", () => showTour(tourStep - 1));
byId("next").addEventListener("click", () => showTour(tourStep + 1));
byId("end").addEventListener("click", () => showTour(-1));
