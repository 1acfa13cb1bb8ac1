// Fields with completion, as a combobox, and live events for the page that tries filters.
"use strict";

for (const field of document.querySelectorAll("[data-completes]")) completing(field);

function completing(field) {
  const list = document.createElement("ul");
  list.className = "choices";
  list.id = `${field.id}-choices`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What may be written next");
  field.after(list);
  const isLine = field.tagName === "INPUT"; // a field of several lines is a text box, which does not expand
  if (isLine) field.setAttribute("role", "combobox");
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", list.id);
  expanded(false);
  let chosen = -1;
  let asked = 0;

  function expanded(is) {
    if (isLine) field.setAttribute("aria-expanded", String(is));
  }

  function close() {
    asked += 1; // an answer that is still on its way is of a text or a cursor that is no more
    list.hidden = true;
    chosen = -1;
    expanded(false);
    field.removeAttribute("aria-activedescendant");
  }

  function choose(index) {
    const options = list.children;
    chosen = (index + options.length) % options.length;
    for (const [at, option] of [...options].entries()) option.setAttribute("aria-selected", String(at === chosen));
    field.setAttribute("aria-activedescendant", options[chosen].id);
    options[chosen].scrollIntoView({ block: "nearest" });
  }

  function take(option) {
    const end = field.selectionStart;
    const begin = end - Number(option.dataset.replaced);
    const text = option.dataset.text;
    field.setRangeText(/[\w]$/.test(text) ? `${text} ` : text, begin, end, "end");
    close();
    field.focus();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  async function offer() {
    close();
    const number = asked;
    const events = document.getElementById("events");
    const dialect = document.getElementById(`${field.id}_dialect`) || document.getElementById("dialect");
    const body = new URLSearchParams({ dialect: dialect ? dialect.value : "", before: field.value.slice(0, field.selectionStart), events: events ? events.value : "" });
    const answer = await fetch("/console/complete", { method: "POST", body });
    if (!answer.ok || number !== asked || document.activeElement !== field) return;
    const found = await answer.json();
    list.replaceChildren(...found.map((each, at) => {
      const option = document.createElement("li");
      option.id = `${list.id}-${at}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.text = each.text;
      option.dataset.replaced = each.replaced;
      const kind = document.createElement("span");
      kind.textContent = each.kind;
      option.append(each.text, kind);
      option.addEventListener("mousedown", event => { event.preventDefault(); take(option); });
      return option;
    }));
    list.hidden = found.length === 0;
    chosen = -1;
    expanded(!list.hidden);
  }

  field.addEventListener("input", offer);
  field.addEventListener("blur", close);
  field.addEventListener("click", close);
  field.addEventListener("keydown", event => {
    if (list.hidden) {
      if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(); }
      return;
    }
    if (event.key === "ArrowDown") { event.preventDefault(); choose(chosen + 1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); choose(chosen < 0 ? -1 : chosen - 1); }
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) { event.preventDefault(); take(list.children[chosen]); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
    else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) close(); // what is offered is for where the cursor was
  });
}

const LIVE_MAX = 50;
const listen = document.getElementById("listen");
if (listen) {
  const state = document.getElementById("listening");
  const events = document.getElementById("events");
  let source = null;
  let waiting = null;
  const show = () => {
    waiting = null;
    events.dispatchEvent(new Event("input", { bubbles: true }));
  };
  listen.addEventListener("click", () => {
    if (source) {
      source.close();
      source = null;
      listen.setAttribute("aria-pressed", "false");
      state.textContent = "stopped";
      return;
    }
    const taken = [];
    source = new EventSource("/events?filter=true&policy=drop");
    listen.setAttribute("aria-pressed", "true");
    state.textContent = "asking the broker …";
    source.onopen = () => { state.textContent = "waiting for events …"; };
    source.onmessage = message => {
      const event = JSON.parse(message.data);
      const isRecord = event.type === "fairlead.notification" || typeof event.data === "object";
      taken.push(JSON.stringify(isRecord && !event.datacontenttype ? { id: event.id, producer: event.source, ...event.data } : event));
      if (taken.length > LIVE_MAX) taken.shift();
      events.value = `${taken.join("\n")}\n`;
      state.textContent = `${taken.length} taken`;
      waiting ??= setTimeout(show, 1000); // events may come faster than anybody reads
    };
    source.onerror = () => { state.textContent = "the broker does not answer; trying again"; };
  });
}
