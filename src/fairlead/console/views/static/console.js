// What all pages share: an answer with an error is shown, and not swallowed.
"use strict";

document.addEventListener("htmx:responseError", event => {
  const target = event.detail.target;
  if (target) target.replaceChildren(fault(event.detail.xhr.responseText));
});
document.addEventListener("htmx:sendError", event => {
  const target = event.detail.target;
  if (target) target.replaceChildren(fault("the broker does not answer"));
});

function fault(text) {
  let said = text;
  try {
    said = JSON.parse(text).detail || text;
  } catch {
    // no problem in JSON: the text as it is
  }
  const shown = document.createElement("p");
  shown.className = "fault";
  shown.setAttribute("role", "alert");
  shown.textContent = said;
  return shown;
}
