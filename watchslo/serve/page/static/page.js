// Keeps the page new: each update of the feed is written into what stands there already.

import { Charts } from "./charts.js";
import { Day } from "./day.js";
import { Feed } from "./feed.js";
import { APISERVERS, Rows, Watches } from "./tables.js";
import { SIGNS, clock, element, moment, setText } from "./words.js";

const HAPPENED = 100; // rows

const title = document.title;
const at = (id) => document.getElementById(id);
const watches = new Map();
let newest = null;

document.documentElement.classList.add("live");
const charts = new Charts(at("charts"));
const table = new Watches(at("watches"), at("filter"), at("count"), (key) => charts.choose(key));
const apiservers = new Rows(at("apiservers"), APISERVERS);
const day = new Day(at("day"), at("day-text"));

function showVerdict({ level, text, figures }) {
  document.title = `${SIGNS[level]} ${title}`;
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

// Lists that are short: written anew, but only when they have changed.
const written = new Map();
function showList(id, items, make) {
  const text = JSON.stringify(items);
  if (written.get(id) === text) return;
  written.set(id, text);
  at(id).replaceChildren(...items.map(make));
}

function cause({ evidence, cause: name, confidence, since, next }) {
  const small = element("small", {}, `${name}: ${confidence} confidence, since ${moment(since)} UTC`);
  return element("li", {}, `${evidence} `, small, element("p", {}, next));
}

function check({ name, level, text }) {
  const sign = element("span", { ariaHidden: "true" }, SIGNS[level]);
  return element("li", { className: level }, sign, " ", element("strong", {}, name), ` ${text}`);
}

function happening({ at: when, level, text }) {
  const time = element("time", { dateTime: when, title: `${moment(when)} UTC` }, clock(when));
  return element("li", { className: level }, time, `${SIGNS[level]} ${text}`);
}

function showHappened(happened, whole) {
  const list = at("happened");
  const items = happened.slice(-HAPPENED).reverse().map(happening);
  if (whole) list.replaceChildren(...items);
  else list.prepend(...items);
  while (list.children.length > HAPPENED) list.lastElementChild.remove();
}

function show(update, whole) {
  newest = update.at;
  if (whole) {
    watches.clear();
    charts.restart();
  }
  update.gone.forEach((key) => watches.delete(key));
  update.watches.forEach((watch) => watches.set(watch.key, watch));
  showVerdict(update.verdict);
  showTrust(update.trust);
  showList("readiness", update.notReady, (reason) => element("li", {}, reason));
  showList("causes", update.causes, cause);
  showList("checks", update.checks, check);
  apiservers.keep(new Set(update.apiservers.map(({ name }) => name)));
  update.apiservers.forEach((apiserver) => apiservers.set(apiserver.name, apiserver));
  table.update(watches, update.watches);
  charts.update(Date.parse(update.at) / 1000, watches);
  if (update.day) day.update(update.day);
  showHappened(update.happened, whole);
}

function showLink(connected) {
  const link = at("link");
  link.classList.toggle("bad", !connected);
  if (connected) setText(link, `Live: figures of ${clock(newest)} UTC.`);
  else if (newest) setText(link, `Disconnected since ${clock(newest)} UTC: all that stands here is old. Trying again.`);
  else setText(link, "Not connected: what stands here is of when the page was opened. Trying again.");
}

new Feed("api/v1/events", show, showLink);
