// The last hour of a watch as a small chart; the page has those of up to six watches, unhealthy ones first.

import { addressOf, element, setText } from "./text.js";

const SHOWN = 6;
const HOUR_SECONDS = 3600;
const LEAST_SECONDS = 180; // the shortest time axis
const LEAST = 0.001; // seconds: the lower end of the logarithmic scale; figures below a tick's round trip are unresolved
const MOST = 60;
const NARROW = 10; // bounds that are further apart than this factor say little about the estimate
const LABELLED = 20; // a scale of a smaller factor needs labels between the powers of ten

const clamp = (seconds) => (seconds === null ? null : Math.min(Math.max(seconds, LEAST), MOST));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const axisText = (seconds) => (seconds < 1 ? `${1000 * seconds} ms` : `${seconds} s`);

// Returns the ends of the band, the upper bound if there is no band, and the estimate.
function point(lower, estimate, upper) {
  if (estimate === null) return [null, null, null, null];
  return upper <= NARROW * lower ? [upper, lower, null, estimate] : [null, null, upper, estimate];
}

// Returns the labelled values of a logarithmic scale.
function labels(low, high) {
  const digits = high / low < LABELLED ? [1, 2, 5] : [1];
  const powers = [-4, -3, -2, -1, 0, 1, 2];
  const all = powers.flatMap((power) => digits.map((digit) => Number((digit * 10 ** power).toPrecision(1))));
  return all.filter((value) => value >= low && value <= high);
}

// Loads the past of all watches with that name.
async function loadPast(name, loaded) {
  const answer = await fetch(`api/v1/series?window=1h&resource=${encodeURIComponent(name)}`).catch(() => null);
  if (!answer?.ok) return; // the charts then begin with the next update
  for (const past of (await answer.json()).watches) loaded(`${past.watch}@${past.apiserver}`, past);
}

export class Chart {
  constructor(watch) {
    this.title = element("a", { href: addressOf(watch.key) });
    this.now = element("span");
    this.plot = element("div", { className: "plot", ariaHidden: "true" });
    this.figure = element("figure", {}, element("figcaption", {}, element("strong", {}, this.title), this.now), this.plot);
    this.data = [[], [], [], [], []]; // at, the upper and lower end of the band, the upper bound without one, estimate
    this.threshold = watch.threshold;
    this.label(watch);
  }

  label(watch) {
    const changed = this.figure.classList.contains("bad") !== watch.bad;
    this.figure.classList.toggle("bad", watch.bad);
    if (changed) this.redraw(); // its size has changed
    setText(this.title, watch.name.replace(watch.apiserver, watch.cells[1])); // as short as in the table
    setText(this.now, watch.caption);
  }

  load({ at, upper, lower, judged }) {
    // An upper bound of null is infinite if there is an estimate.
    const above = upper.map((s, i) => (s === null && judged[i] !== null ? MOST : clamp(s)));
    const points = at.map((_, i) => point(clamp(lower[i]), clamp(judged[i]), above[i]));
    this.data = [at, ...[0, 1, 2, 3].map((column) => points.map((values) => values[column]))];
    this.draw();
  }

  // Loads the past of this watch alone.
  start(watch) {
    return loadPast(watch.watch, (key, past) => key === watch.key && this.load(past));
  }

  // The scale follows the estimates and the threshold: wide bounds do not make the line flat.
  range() {
    const shown = [this.threshold, ...this.data[4].filter((seconds) => seconds !== null)];
    return [Math.min(...shown) / 2, Math.max(...shown) * 2];
  }

  push(at, watch) {
    this.label(watch);
    const figure = watch.judged;
    if (at <= this.data[0].at(-1)) return;
    const [lower, estimate, upper] = figure ? [figure.lower, figure.estimate ?? MOST, figure.upper ?? MOST].map(clamp) : [null, null, null];
    [at, ...point(lower, estimate, upper)].forEach((value, column) => this.data[column].push(value));
    while (this.data[0][0] < at - HOUR_SECONDS) this.data.forEach((column) => column.shift());
    this.draw();
  }

  draw() {
    if (!this.plot.clientWidth) return;
    if (this.uplot) this.uplot.setData(this.data, true);
    else this.uplot = new uPlot(this.options(), this.data, this.plot);
  }

  redraw() {
    this.uplot?.destroy();
    this.uplot = null;
    this.draw();
  }

  options() {
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const line = { stroke: colour("--chart"), width: 1.5, spanGaps: false, points: { show: false } };
    const dots = { ...line, stroke: colour("--quiet"), width: 1, dash: [1, 5] };
    const none = { stroke: "transparent", width: 0, points: { show: false } };
    return {
      width: this.plot.clientWidth,
      height: this.plot.clientHeight,
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 8, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      scales: {
        x: { range: (_, from, to) => [Math.min(from, to - LEAST_SECONDS), to] },
        y: { distr: 3, range: () => this.range() },
      },
      axes: [
        { ...axis, size: 24, incrs: [60, 120, 300, 600, 900, 1800], values: "{HH}:{mm}" },
        { ...axis, size: 54, splits: (_, axis_, low, high) => labels(low, high), filter: (_, splits) => splits,
          values: (_, splits) => splits.map(axisText) },
      ],
      series: [{}, none, none, dots, line],
      bands: [{ series: [1, 2], fill: colour("--band") }],
      hooks: { draw: [(plot) => this.drawThreshold(plot)] },
    };
  }

  drawThreshold({ ctx, bbox, valToPos }) {
    const y = Math.round(valToPos(this.threshold, "y", true));
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }
}

export class Charts {
  constructor(container) {
    this.container = container;
    this.charts = new Map();
    this.watches = new Map();
    const redraw = () => this.charts.forEach((chart) => chart.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) redraw();
      width = contentRect.width;
    }).observe(container);
  }

  // Charts are created again and load their past: updates may have been missed.
  restart() {
    this.charts.clear();
  }

  update(at, watches) {
    this.watches = watches;
    for (const [key, chart] of this.charts) {
      if (watches.has(key)) chart.push(at, watches.get(key));
    }
    this.arrange();
  }

  arrange() {
    const all = [...this.watches.values()];
    const bad = all.filter((watch) => watch.bad).sort((one, other) => (one.since < other.since ? -1 : 1));
    const wanted = new Set(bad.map((watch) => watch.key));
    all.filter((watch) => watch.judged).forEach((watch) => wanted.add(watch.key));
    all.forEach((watch) => wanted.add(watch.key));
    const keys = [...wanted].slice(0, SHOWN);
    const missing = keys.filter((key) => !this.charts.has(key));
    missing.forEach((key) => this.charts.set(key, new Chart(this.watches.get(key))));
    for (const key of this.charts.keys()) {
      if (!keys.includes(key)) this.charts.delete(key);
    }
    const figures = keys.map((key) => this.charts.get(key).figure);
    const same = figures.length === this.container.children.length &&
      figures.every((figure, place) => this.container.children[place] === figure);
    if (!same) this.container.replaceChildren(...figures);
    for (const name of new Set(missing.map((key) => this.watches.get(key).watch))) {
      loadPast(name, (key, past) => this.charts.get(key)?.load(past));
    }
  }
}
