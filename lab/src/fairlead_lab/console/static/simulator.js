// A run that is played: the time is dragged, messages travel, links are broken, and the run is computed anew.
"use strict";

const SPEEDS = { slow: 60000, middling: 20000, fast: 6000 };
const KINDS = ["notification", "filters", "other"];
const BINS = 200;
const LATEST = 8;
const byId = id => document.getElementById(id);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const ms = time => `${(time / 1000).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ms`;
const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

let run = null;
let drawn = null;
let faults = [];
let now = 0;
let asked = 0;
let playing = null;

function fields() {
  return new URLSearchParams({
    algorithm: byId("algorithm").value, subscriptions: byId("subscriptions").value, seed: byId("seed").value,
    faults: JSON.stringify(faults),
  });
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

async function compute(keep) {
  const number = ++asked;
  byId("state").textContent = "Running …";
  try {
    const answer = await fetch("/console/simulator/run", { method: "POST", body: fields() });
    const found = await answer.json();
    if (number !== asked) return;
    if (!answer.ok) throw new Error(found.detail || found.title);
    byId("problem").replaceChildren();
    show(found, keep);
  } catch (error) {
    if (number !== asked) return;
    byId("problem").replaceChildren(element("p", { className: "fault", role: "alert" }, error.message));
    byId("state").textContent = "";
  }
}

function show(found, keep) {
  const same = run && JSON.stringify([run.brokers.map(each => each.name), run.links]) === JSON.stringify([found.brokers.map(each => each.name), found.links]);
  run = found;
  run.messages.sort((a, b) => a[0] - b[0]);
  run.longest = Math.max(1, ...run.messages.map(each => (each[1] ?? each[0]) - each[0]));
  run.patience = Math.max(0, ...run.publications.flatMap(each => each.notified.map(time => time - each.at)));
  if (!same) draw();
  byId("time").max = run.end;
  options("link", run.links.map(([one, other]) => `${run.brokers[one].name} – ${run.brokers[other].name}`));
  options("broker", run.brokers.map(each => each.name));
  byId("damage").hidden = !run.leased;
  if (!keep) now = opening();
  listFaults();
  strip();
  tell();
  at(Math.min(now, run.end));
}

function opening() {
  // A time at which there is something to be seen: many notifications are under way.
  let best = run.begins, most = -1;
  for (let step = 0; step < BINS; step++) {
    const time = run.begins + (run.end - run.begins) * step / BINS;
    const many = underWay(time).filter(each => each[4] === 0).length;
    if (many > most) [best, most] = [time, many];
  }
  return best;
}

function options(id, names) {
  const select = byId(id), before = select.value;
  select.replaceChildren(...names.map((name, at) => element("option", { value: String(at) }, name)));
  if (before && Number(before) < names.length) select.value = before;
}

function draw() {
  if (drawn) drawn.destroy();
  const font = "ui-sans-serif, system-ui, sans-serif";
  drawn = cytoscape({
    container: byId("graph"), layout: { name: "preset", padding: 40 }, minZoom: 0.02, maxZoom: 3,
    autoungrabify: true, boxSelectionEnabled: false,
    elements: [
      ...run.brokers.map((each, at) => ({ group: "nodes", data: { id: `n${at}`, at, name: each.name, size: 20, tone: "good" }, position: { x: each.x, y: each.y } })),
      ...run.links.map(([one, other], at) => ({ group: "edges", data: { id: `e${at}`, at, source: `n${one}`, target: `n${other}`, tone: "good" } })),
    ],
    style: [
      { selector: "node", style: { "background-color": colour("tint"), label: "data(name)", color: colour("ink"), "font-family": font, "font-size": 13, "text-valign": "bottom", "text-margin-y": 5, "text-background-color": colour("card"), "text-background-opacity": 0.8, "min-zoomed-font-size": 6, width: "data(size)", height: "data(size)", "border-width": 3, "border-color": colour("quiet") } },
      { selector: "node[tone = 'warn']", style: { "background-color": colour("warn"), "border-color": colour("warn") } },
      { selector: "edge", style: { width: 2, "line-color": colour("faint"), "curve-style": "straight" } },
      { selector: "edge[tone = 'bad']", style: { "line-color": colour("bad"), "line-style": "dashed" } },
      { selector: ":selected", style: { "border-color": colour("ink"), "line-color": colour("ink") } },
    ],
  });
  if (drawn.zoom() > 1.3) { drawn.zoom(1.3); drawn.center(); }
  // Names and brokers keep a size that can be read, unless there are too many of them.
  const grown = run.brokers.length > 60 ? 1 : Math.min(3, Math.max(1, 0.9 / drawn.zoom()));
  drawn.nodes().style({ "font-size": 13 * grown, "text-margin-y": 5 * grown, "border-width": 3 * grown });
  drawn.edges().style({ width: each => (each.data("tone") === "bad" ? 4 : 2) * grown });
  drawn.scratch("grown", grown);
  drawn.on("tap", "edge", event => { byId("link").value = String(event.target.data("at")); });
  drawn.on("tap", "node", event => { byId("broker").value = String(event.target.data("at")); table(); });
  drawn.on("render", paint);
  window.overlay = drawn;
}

// What is sent before this time and not yet there. Messages are in the order of sending, and none takes longer than the longest.
function underWay(time) {
  let low = 0, high = run.messages.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.messages[middle][0] < time - run.longest) low = middle + 1; else high = middle;
  }
  const found = [];
  for (let at = low; at < run.messages.length && run.messages[at][0] <= time; at++) {
    const [sent, arrived] = run.messages[at];
    if (time < (arrived ?? sent + run.longest)) found.push(run.messages[at]);
  }
  return found;
}

function latest(series, time) {
  let value = 0;
  for (const [at, number] of series) { if (at > time) break; value = number; }
  return value;
}

function at(time) {
  now = time;
  byId("time").value = time;
  byId("now").textContent = `${ms(time)} of ${ms(run.end)}`;
  byId("time").setAttribute("aria-valuetext", byId("now").textContent);
  const grown = drawn.scratch("grown");
  drawn.batch(() => {
    run.brokers.forEach((each, number) => {
      const entries = latest(each.entries, time);
      const damaged = faults.some(fault => fault.broker === each.name && time >= fault.at && time < fault.at + run.end / 40);
      drawn.getElementById(`n${number}`).data({ size: grown * (16 + 8 * Math.log10(1 + entries)), tone: damaged ? "warn" : "good", name: `${each.name} · ${entries}` });
    });
    run.links.forEach(([one, other], number) => {
      const names = [run.brokers[one].name, run.brokers[other].name];
      const broken = faults.some(each => each.one && names.includes(each.one) && names.includes(each.other) && each.at <= time && time < each.until);
      drawn.getElementById(`e${number}`).data("tone", broken ? "bad" : "good");
    });
  });
  paint();
  cursor();
  publications();
}

function paint() {
  if (!drawn || !run) return;
  const canvas = byId("messages"), scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== width * scale || canvas.height !== height * scale) { canvas.width = width * scale; canvas.height = height * scale; }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const places = run.brokers.map((_, number) => drawn.getElementById(`n${number}`).renderedPosition());
  const tones = [colour("one"), colour("two"), colour("quiet")], bad = colour("bad"), card = colour("card");
  for (const [sent, arrived, from, to, kind] of underWay(now)) {
    const lost = arrived === null;
    const share = lost ? Math.min(0.5, (now - sent) / run.longest) : (now - sent) / Math.max(1, arrived - sent);
    const one = places[from], other = places[to];
    const x = one.x + (other.x - one.x) * share, y = one.y + (other.y - one.y) * share;
    pen.beginPath();
    if (lost && share >= 0.5) {
      pen.strokeStyle = bad; pen.lineWidth = 3;
      pen.moveTo(x - 5, y - 5); pen.lineTo(x + 5, y + 5); pen.moveTo(x + 5, y - 5); pen.lineTo(x - 5, y + 5);
      pen.stroke();
      continue;
    }
    pen.fillStyle = tones[kind]; pen.strokeStyle = card; pen.lineWidth = 1.5;
    pen.arc(x, y, kind === 0 ? 6 : 4.5, 0, 7);
    pen.fill(); pen.stroke();
  }
}

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function strip() {
  const bins = KINDS.map(() => new Array(BINS).fill(0));
  for (const [sent, , , , kind] of run.messages) bins[kind][Math.min(BINS - 1, Math.floor(sent / run.end * BINS))]++;
  const top = Math.max(1, ...bins[0], ...bins[1]);
  const x = time => time / run.end * 1000;
  const parts = [];
  for (const each of faults) parts.push(svg("rect", { class: "fault", x: x(each.at), y: 0, width: Math.max(4, x(each.until ?? each.at) - x(each.at)), height: 60 }));
  const wide = 1000 / BINS / 2;
  for (const kind of [0, 1]) bins[kind].forEach((number, bin) => {
    if (number) parts.push(svg("rect", { class: KINDS[kind], x: (bin * 2 + kind) * wide, y: 60 - 52 * Math.sqrt(number / top), width: wide * 0.9, height: 52 * Math.sqrt(number / top) }));
  });
  for (const each of run.publications) if (each.missing.length) parts.push(svg("line", { class: "missing", x1: x(each.at), x2: x(each.at), y1: 0, y2: 12 }));
  parts.push(svg("line", { class: "cursor", y1: 0, y2: 60, x1: 0, x2: 0 }));
  byId("strip").replaceChildren(...parts);
}

function cursor() {
  const line = byId("strip").lastElementChild;
  line.setAttribute("x1", now / run.end * 1000);
  line.setAttribute("x2", now / run.end * 1000);
}

function tell() {
  const wanted = run.publications.reduce((sum, each) => sum + each.wanted, 0);
  const missing = run.publications.reduce((sum, each) => sum + each.missing.length, 0);
  const filters = run.messages.filter(each => each[4] === 1).length;
  byId("state").textContent = `${count(run.publications.length, "publication")}, ${count(run.messages.length, "message")}, of them ${filters.toLocaleString("en")} about filters. `
    + (missing ? `${missing} of ${wanted} deliveries ${missing === 1 ? "is" : "are"} missing.` : `All ${wanted} deliveries arrived.`)
    + (run.left_out ? ` ${run.left_out.toLocaleString("en")} later messages are not shown.` : "");
}

function publications() {
  const before = run.publications.filter(each => each.at <= now);
  const shown = before.slice(-LATEST).reverse();
  if (!shown.length) {
    byId("publications").replaceChildren(element("p", { className: "empty" }, `Clients subscribe; the first publication is at ${ms(run.begins)}.`));
    return;
  }
  const table = element("table", {});
  const head = table.createTHead().insertRow();
  for (const name of ["at", "broker", "event", "notified"]) head.append(element("th", { scope: "col" }, name));
  const body = table.createTBody();
  for (const each of shown) {
    const row = body.insertRow();
    const told = each.notified.filter(time => time <= now).length;
    const over = told + each.missing.length >= each.wanted && now >= each.at + run.patience;
    const tone = !each.wanted ? "idle" : told === each.wanted ? "good" : over ? "bad" : "idle";
    const words = !each.wanted ? "nobody wants it" : `${told} of ${each.wanted}${tone === "bad" ? ", missing: " + each.missing.join(", ") : ""}`;
    row.insertCell().textContent = ms(each.at);
    row.insertCell().textContent = each.broker;
    row.insertCell().append(element("code", {}, each.text));
    row.insertCell().append(element("span", { className: `badge ${tone}` }, words));
  }
  byId("publications").replaceChildren(table);
}

function listFaults() {
  byId("faults").replaceChildren(...faults.map((each, number) => {
    const words = each.one ? `${each.one} – ${each.other} broken from ${ms(each.at)} to ${ms(each.until)}` : `${each.broker} damaged at ${ms(each.at)}`;
    const button = element("button", { type: "button", ariaLabel: `Take back: ${words}` }, "Take back");
    button.addEventListener("click", () => { faults.splice(number, 1); compute(true); });
    return element("li", {}, element("span", {}, words), button);
  }));
}

async function table() {
  const wanted = fields();
  wanted.set("broker", run.brokers[Number(byId("broker").value)].name);
  wanted.set("at", String(Math.round(now)));
  const answer = await fetch("/console/simulator/broker", { method: "POST", body: wanted });
  if (answer.ok) byId("details").innerHTML = await answer.text();
}

function pause() {
  playing = null;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-pressed", "false");
}

function play() {
  if (now >= run.end) now = 0;
  byId("play").textContent = "Pause";
  byId("play").setAttribute("aria-pressed", "true");
  let last = performance.now();
  const step = moment => {
    if (playing !== step) return;
    const time = now + (moment - last) / SPEEDS[byId("speed").value] * run.end;
    last = moment;
    at(Math.min(time, run.end));
    if (now >= run.end) { pause(); return; }
    requestAnimationFrame(step);
  };
  playing = step;
  requestAnimationFrame(step);
}

byId("play").addEventListener("click", () => { if (run) (playing ? pause : play)(); });
byId("time").addEventListener("input", event => { pause(); at(Number(event.target.value)); });
for (const id of ["algorithm", "subscriptions", "seed"]) byId(id).addEventListener("change", () => compute(false));
byId("choices").addEventListener("submit", event => { event.preventDefault(); compute(false); });
byId("break").addEventListener("submit", event => {
  event.preventDefault();
  const [one, other] = run.links[Number(byId("link").value)];
  const from = Math.round(now), until = Math.min(run.end, Math.round(from + (run.end - run.begins) / 4));
  if (from >= until) return;
  faults.push({ one: run.brokers[one].name, other: run.brokers[other].name, at: from, until });
  compute(true);
});
byId("damaging").addEventListener("submit", event => {
  event.preventDefault();
  faults.push({ broker: run.brokers[Number(byId("broker").value)].name, at: Math.round(now) });
  compute(true);
});
byId("show").addEventListener("click", table);
window.addEventListener("resize", () => { if (run) paint(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (run) { draw(); at(now); } });
compute(false);
