// Keeps the page up to date: each update of the feed is inserted into the elements of the page.

import { Charts } from "./charts.js";
import { Day } from "./day.js";
import { Detail } from "./detail.js";
import { Feed } from "./feed.js";
import { Matrix, Rows, Watches } from "./tables.js";
import { SIGNS, cause, clock, element, setText, timelineEvent } from "./text.js";

const TIMELINE_ROWS = 100;

const at = (id) => document.getElementById(id);
const watches = new Map();
let newest = null;

document.documentElement.classList.add("live");
const charts = new Charts(at("charts"));
const table = new Watches(at("watches"), at("filter"), at("count"));
const matrix = new Matrix(at("matrix"));
const apiservers = new Rows(at("apiservers"));
const reactions = new Rows(at("reactions"), ({ row }, reaction) => row.classList.toggle("bad", reaction.bad));
const clients = new Rows(at("clients"), ({ row }, client) => row.classList.toggle("bad", client.level === "bad"));
const detail = new Detail(at("detail"));
const day = new Day(at("day"), at("day-text"));

function showName({ title, part, verdict }) {
  document.title = `${SIGNS[verdict.level]} ${title}`;
  setText(at("title"), title);
  setText(at("part").firstElementChild, part);
}

function showVerdict({ level, text, figures }) {
  const headline = at("headline");
  if (headline.className !== level) headline.className = level;
  const [sign, words] = headline.children;
  setText(sign, SIGNS[level]);
  setText(words, text);
  setText(at("figures"), figures);
}

function showTrust({ level, text }) {
  const line = at("trust");
  if (line.className !== level) line.className = level;
  const [sign, , words] = line.children;
  setText(sign, SIGNS[level]);
  setText(words, text);
}

// Short lists are replaced as a whole, if they have changed.
const written = new Map();
function showList(id, items, make) {
  const text = JSON.stringify(items);
  if (written.get(id) === text) return;
  written.set(id, text);
  at(id).replaceChildren(...items.map(make));
}

// A table whose rows are sent as a whole, in their order; its section is hidden without rows.
function showRows(rows, lines, section) {
  const keys = lines.map(({ key }) => key);
  rows.keep(new Set(keys));
  lines.forEach((line) => rows.set(line.key, line));
  rows.order(keys);
  at(section).hidden = !lines.length;
}

function check({ name, level, text }) {
  const sign = element("span", { ariaHidden: "true" }, SIGNS[level]);
  return element("li", { className: level }, sign, " ", element("strong", {}, name), ` ${text}`);
}

function showTimeline(happened, whole) {
  const list = at("happened");
  const items = happened.slice(-TIMELINE_ROWS).reverse().map(timelineEvent);
  if (whole) list.replaceChildren(...items);
  else list.prepend(...items);
  while (list.children.length > TIMELINE_ROWS) list.lastElementChild.remove();
}

function show(update, whole) {
  newest = update.at;
  if (whole) {
    watches.clear();
    charts.restart();
  }
  update.gone.forEach((key) => watches.delete(key));
  update.watches.forEach((watch) => watches.set(watch.key, watch));
  showName(update);
  showVerdict(update.verdict);
  showTrust(update.trust);
  showList("readiness", update.notReady, (reason) => element("li", {}, reason));
  showList("causes", update.causes, cause);
  showList("checks", update.checks, check);
  apiservers.keep(new Set(update.apiservers.map(({ name }) => name)));
  update.apiservers.forEach((apiserver) => apiservers.set(apiserver.name, apiserver));
  showRows(reactions, update.reactions, "reactions-section");
  showRows(clients, update.clients, "clients-section");
  table.update(watches, update.watches);
  matrix.update(watches);
  charts.update(Date.parse(update.at) / 1000, watches);
  detail.update(Date.parse(update.at) / 1000, watches, whole);
  if (update.day) day.update(update.day);
  showTimeline(update.happened, whole);
}

function showLink(connected) {
  const link = at("link");
  link.classList.toggle("bad", !connected);
  if (connected) setText(link, `Live, updated ${clock(newest)} UTC.`);
  else if (newest) setText(link, `Disconnected since ${clock(newest)} UTC: all figures are stale. Reconnecting.`);
  else setText(link, "Not connected: all figures are from when the page was opened. Reconnecting.");
}

new Feed("api/v1/events", show, showLink);
