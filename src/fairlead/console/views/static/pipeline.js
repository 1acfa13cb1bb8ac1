// What somebody has unfolded stays unfolded when a batch is committed.
"use strict";

let unfolded = [];

document.addEventListener("htmx:beforeSwap", event => {
  if (event.detail.target.id === "run") unfolded = [...document.querySelectorAll("#run details")].map(each => each.open);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const [at, each] of [...document.querySelectorAll("#run details")].entries()) each.open = unfolded[at] ?? each.open;
});
