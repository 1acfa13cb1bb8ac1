// The overlay: asks for the network every two seconds, draws it, and shows what is chosen.
"use strict";

const EVERY_MS = 2000;
const state = document.getElementById("state");
const list = document.getElementById("brokers");
const find = document.getElementById("find");
let drawn = null;
let shape = "";
let earlier = null;

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// From afar brokers and links are drawn larger than they are near by: a thousand would be too faint to see.
let fitted = 1;

function larger(most) {
  return Math.min(most, Math.max(1, 0.3 / fitted));
}

function look() {
  const font = "ui-sans-serif, system-ui, sans-serif";
  return [
    { selector: "node", style: {
      "background-color": colour("one"), label: "data(name)", color: colour("ink"), "font-family": font, "font-size": 13,
      "text-valign": "bottom", "text-margin-y": 6, "min-zoomed-font-size": 7, width: ele => ele.data("size") * larger(4), height: ele => ele.data("size") * larger(4),
      "text-background-color": colour("card"), "text-background-opacity": 0.8, "border-width": 2, "border-color": colour("card"),
    } },
    { selector: "node[tone = 'bad']", style: { "background-color": colour("card"), "border-color": colour("bad"), "border-style": "dashed", "border-width": 3 } },
    { selector: "node[tone = 'warn']", style: { "background-color": colour("warn") } },
    { selector: "edge", style: {
      width: ele => ele.data("width") * larger(12), "line-color": colour("faint"), "curve-style": "straight", label: "data(said)", color: colour("quiet"),
      "font-family": font, "font-size": 11, "min-zoomed-font-size": 8, "text-background-color": colour("card"), "text-background-opacity": 0.9,
    } },
    { selector: "edge[tone = 'bad']", style: { "line-color": colour("bad"), "line-style": "dashed" } },
    { selector: "edge[tone = 'warn']", style: { "line-color": colour("warn") } },
    { selector: ":selected", style: { "border-color": colour("ink"), "line-color": colour("ink"), "border-width": 4, width: ele => ele.isEdge() ? 5 : ele.data("size") + 6 } },
  ];
}

function rate(number) {
  if (number === null) return "–";
  return number >= 10 ? Math.round(number).toLocaleString("en") : String(Math.round(number * 10) / 10);
}

function rates(broker, before, seconds) {
  const known = before && before.counters;
  const of = name => known && broker.counters ? Math.max(broker.counters[name] - known[name], 0) / seconds : null;
  return { published: of("published"), delivered: of("delivered"), relayed: of("relayed"), dropped: of("dropped") };
}

function toneOf(broker) {
  if (broker.problem) return "bad";
  return broker.full || broker.draining || broker.blocked ? "warn" : "good";
}

function elements(network, shown) {
  const nodes = network.brokers.map(each => ({
    group: "nodes",
    data: { id: each.name, name: each.name, tone: toneOf(each), size: 22 + 5 * Math.log10(1 + (each.subscriptions || 0)) },
    position: { x: each.x, y: each.y },
  }));
  const edges = network.links.map(each => {
    const flow = Math.max(0, ...[each.one, each.other].map(name => shown.get(name)?.relayed || 0));
    return { group: "edges", data: {
      id: `${each.one}\u0000${each.other}`, source: each.one, target: each.other,
      tone: each.up ? (each.full || each.closes ? "warn" : "good") : "bad",
      width: 2 + Math.min(6, Math.log10(1 + flow)),
      said: each.up ? (each.behind ? `${each.behind.toLocaleString("en")} behind` : "") : "down",
    } };
  });
  return [...nodes, ...edges];
}

function draw(network, shown) {
  const now = JSON.stringify([network.brokers.map(each => each.name), network.links.map(each => [each.one, each.other])]);
  const wanted = elements(network, shown);
  if (drawn && now === shape) {
    drawn.batch(() => { for (const each of wanted) drawn.getElementById(each.data.id).data(each.data); });
    return;
  }
  shape = now;
  if (drawn) drawn.destroy();
  drawn = cytoscape({
    container: document.getElementById("graph"), elements: wanted, style: look(), layout: { name: "preset", padding: 40 },
    minZoom: 0.005, maxZoom: 3, textureOnViewport: network.brokers.length > 300,
    autoungrabify: true, boxSelectionEnabled: false,
  });
  fitted = drawn.zoom();
  if (fitted < 0.3) drawn.style(look());
  if (drawn.zoom() > 1.3) { drawn.zoom(1.3); drawn.center(); }
  drawn.on("tap", "node", event => choose("/console/broker", { name: event.target.id() }));
  drawn.on("tap", "edge", event => choose("/console/link", { one: event.target.data("source"), other: event.target.data("target") }));
  window.overlay = drawn;
}

function choose(path, values) {
  htmx.ajax("GET", path, { values, target: "#details", swap: "innerHTML" }).then(() => {
    const heading = document.querySelector("#details h2");
    if (heading) { heading.tabIndex = -1; heading.focus(); heading.scrollIntoView({ block: "nearest" }); }
  });
}

const HEADS = ["broker", "published/s", "delivered/s", "relayed/s", "dropped/s", "clients", "subscriptions", "queued", "behind"];
const SHOWN_MAX = 200;

function rows(network, shown) {
  const wanted = find.value.trim().toLowerCase();
  const fitting = network.brokers.filter(each => each.name.toLowerCase().includes(wanted));
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const [at, name] of HEADS.entries()) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (at) cell.className = "num";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const each of fitting.slice(0, SHOWN_MAX)) {
    const row = body.insertRow();
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = each.name;
    button.dataset.broker = each.name;
    button.addEventListener("click", () => choose("/console/broker", { name: each.name }));
    row.insertCell().append(button);
    if (each.problem) {
      const cell = row.insertCell();
      cell.colSpan = HEADS.length - 1;
      cell.textContent = each.problem;
      continue;
    }
    const speed = shown.get(each.name);
    const figures = [rate(speed.published), rate(speed.delivered), rate(speed.relayed), rate(speed.dropped),
      ...[each.clients, each.subscriptions, each.queued, each.behind].map(number => number.toLocaleString("en"))];
    for (const figure of figures) {
      const cell = row.insertCell();
      cell.className = "num";
      cell.textContent = figure;
    }
  }
  const focused = document.activeElement?.dataset?.broker;
  list.replaceChildren(table);
  if (focused) [...list.querySelectorAll("button")].find(each => each.dataset.broker === focused)?.focus();
  if (fitting.length > SHOWN_MAX) list.append(`${(fitting.length - SHOWN_MAX).toLocaleString("en")} more: find them by name`);
}

let latest = null;

async function ask() {
  try {
    const answer = await fetch("/console/overlay.json");
    if (!answer.ok) throw new Error((await answer.json()).detail);
    const network = await answer.json();
    const at = performance.now();
    const before = earlier && new Map(earlier.network.brokers.map(each => [each.name, each]));
    const seconds = earlier ? (at - earlier.at) / 1000 : 1;
    const shown = new Map(network.brokers.map(each => [each.name, rates(each, before?.get(each.name), seconds)]));
    earlier = { network, at };
    latest = { network, shown };
    draw(network, shown);
    rows(network, shown);
    const away = network.brokers.filter(each => each.problem).length;
    const down = network.links.filter(each => !each.up).length;
    const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
    state.textContent = [count(network.brokers.length, "broker"), count(network.links.length, "link"),
      ...(away ? [`${away} away`] : []), ...(down ? [`${down} down`] : []), ...network.waits].join(", ");
  } catch (error) {
    state.textContent = `no answer: ${error.message}; asking again`;
  }
  setTimeout(ask, document.hidden ? 10 * EVERY_MS : EVERY_MS);
}

find.addEventListener("input", () => { if (latest) rows(latest.network, latest.shown); });
document.getElementById("graph-in").addEventListener("click", () => drawn?.zoom({ level: drawn.zoom() * 1.4, renderedPosition: { x: drawn.width() / 2, y: drawn.height() / 2 } }));
document.getElementById("graph-out").addEventListener("click", () => drawn?.zoom({ level: drawn.zoom() / 1.4, renderedPosition: { x: drawn.width() / 2, y: drawn.height() / 2 } }));
document.getElementById("graph-fit").addEventListener("click", () => drawn?.fit(undefined, 40));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn?.style(look()));
ask();
