// Everything about one watch, in a dialog. The fragment of the page's address names the watch, so it can be shared.

import { Chart } from "./charts.js";
import { WATCH, cause, element, setText, timelineEvent } from "./text.js";

function keyIn(fragment) {
  if (!fragment.startsWith(WATCH)) return null;
  try {
    return decodeURIComponent(fragment.slice(WATCH.length));
  } catch {
    return null; // a damaged address
  }
}

export class Detail {
  constructor(dialog) {
    this.dialog = dialog;
    [this.title, this.text, this.causes, this.plot, this.sections, this.happened] = [
      "title", "text", "causes", "chart", "sections", "happened",
    ].map((name) => document.getElementById(`detail-${name}`));
    this.key = null;
    this.chart = null;
    this.labels = "";
    this.watches = new Map();
    addEventListener("hashchange", () => this.follow());
    document.getElementById("detail-close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => this.closed());
    new ResizeObserver(() => this.chart?.redraw()).observe(this.plot);
  }

  // Opens or closes the dialog as the address says.
  follow() {
    const key = keyIn(location.hash);
    if (key === this.key) return;
    this.key = key;
    this.forget();
    if (key === null) return this.dialog.close();
    setText(this.title, key);
    if (!this.dialog.open) this.dialog.showModal();
    this.draw();
    this.load();
  }

  closed() {
    this.key = null;
    if (keyIn(location.hash) !== null) history.replaceState(null, "", location.pathname + location.search);
  }

  forget() {
    this.chart = null;
    this.labels = "";
    setText(this.text, "");
    [this.causes, this.plot, this.sections, this.happened].forEach((part) => part.replaceChildren());
  }

  // `whole` means that updates may have been missed: the chart loads its past again.
  update(at, watches, whole) {
    this.watches = watches;
    if (this.key === null) return this.follow(); // the page may have been opened with an address of a watch
    if (whole || !this.chart) this.draw();
    else if (watches.has(this.key)) this.chart.push(at, watches.get(this.key));
    this.load();
  }

  draw() {
    const watch = this.watches.get(this.key);
    if (!watch) return;
    this.chart = new Chart(watch);
    this.plot.replaceChildren(this.chart.figure);
    this.chart.start(watch);
  }

  async load() {
    const key = this.key;
    const answer = await fetch(`api/v1/watches?watch=${encodeURIComponent(key)}`).catch(() => null);
    const found = answer?.ok ? (await answer.json()).watches : [];
    if (key !== this.key) return;
    const watch = found.find((one) => one.key === key);
    if (watch) this.show(watch);
    else if (answer?.status === 404) setText(this.text, "There is no such watch now.");
  }

  show({ name, condition, bad, explanation, sections, causes, happened }) {
    setText(this.title, `${name}: ${condition}`);
    this.title.classList.toggle("bad", bad);
    setText(this.text, explanation);
    this.causes.replaceChildren(...causes.map(cause));
    this.happened.replaceChildren(...happened.reverse().map(timelineEvent));
    const facts = sections.flatMap((section) => section.facts);
    const labels = facts.map(({ label }) => label).join();
    if (labels !== this.labels) this.sections.replaceChildren(...sections.map(section));
    this.labels = labels;
    this.sections.querySelectorAll("dd").forEach((shown, place) => setText(shown, facts[place].text));
  }
}

function section({ title, facts }) {
  const rows = facts.map(({ label }) => element("div", {}, element("dt", {}, label), element("dd")));
  return element("section", {}, element("h3", {}, title), element("dl", {}, ...rows));
}
