// The last hour of up to six watches, a small chart each: unhealthy watches first, and the ones that were selected.

import { element, setText } from "./text.js";

const SHOWN = 6;
const HOUR_SECONDS = 3600;
const LEAST_SECONDS = 180; // the shortest time axis
const LEAST = 0.001; // seconds: the lower end of the logarithmic scale; figures below a tick's round trip are unresolved
const MOST = 60;

const clamp = (seconds) => (seconds === null ? null : Math.min(Math.max(seconds, LEAST), MOST));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const axisText = (seconds) => (seconds < 1 ? `${1000 * seconds} ms` : `${seconds} s`);

class Chart {
  constructor(watch) {
    this.title = element("strong");
    this.now = element("span");
    this.plot = element("div", { className: "plot", ariaHidden: "true" });
    this.figure = element("figure", {}, element("figcaption", {}, this.title, this.now), this.plot);
    this.data = [[], [], [], []]; // at, upper, lower, estimate
    this.threshold = watch.threshold;
    this.label(watch);
  }

  label(watch) {
    this.figure.classList.toggle("bad", watch.bad);
    setText(this.title, watch.name);
    setText(this.now, watch.caption);
  }

  load({ at, upper, lower, judged }) {
    // An upper bound of null is infinite if there is an estimate.
    const above = upper.map((s, i) => (s === null && judged[i] !== null ? MOST : clamp(s)));
    this.data = [at, above, lower.map(clamp), judged.map(clamp)];
    this.draw();
  }

  push(at, watch) {
    this.label(watch);
    const figure = watch.judged;
    const point = figure ? [clamp(figure.upper ?? MOST), clamp(figure.lower), clamp(figure.estimate ?? MOST)] : [null, null, null];
    if (at <= this.data[0].at(-1)) return;
    [at, ...point].forEach((value, column) => this.data[column].push(value));
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
        y: { distr: 3, range: () => [LEAST, MOST] },
      },
      axes: [
        { ...axis, size: 24, incrs: [60, 120, 300, 600, 900, 1800], values: "{HH}:{mm}" },
        { ...axis, size: 54, splits: () => [0.001, 0.01, 0.1, 1, 10], filter: (_, splits) => splits,
          values: (_, splits) => splits.map(axisText) },
      ],
      series: [{}, none, none, line],
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
    this.chosen = [];
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

  choose(key) {
    this.chosen = [key, ...this.chosen.filter((other) => other !== key)].slice(0, SHOWN);
    this.arrange();
    this.charts.get(key)?.figure.scrollIntoView({ block: "nearest" });
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
    const wanted = new Set([...this.chosen.filter((key) => this.watches.has(key)), ...bad.map((watch) => watch.key)]);
    all.filter((watch) => watch.judged).forEach((watch) => wanted.add(watch.key));
    all.forEach((watch) => wanted.add(watch.key));
    const keys = [...wanted].slice(0, Math.max(SHOWN, this.chosen.length));
    const missing = keys.filter((key) => !this.charts.has(key));
    missing.forEach((key) => this.charts.set(key, new Chart(this.watches.get(key))));
    for (const key of this.charts.keys()) {
      if (!keys.includes(key)) this.charts.delete(key);
    }
    const figures = keys.map((key) => this.charts.get(key).figure);
    const same = figures.length === this.container.children.length &&
      figures.every((figure, place) => this.container.children[place] === figure);
    if (!same) this.container.replaceChildren(...figures);
    for (const watch of new Set(missing.map((key) => this.watches.get(key).watch))) this.load(watch);
  }

  async load(name) {
    const answer = await fetch(`api/v1/series?window=1h&resource=${encodeURIComponent(name)}`).catch(() => null);
    if (!answer?.ok) return; // the chart then begins with the next update
    for (const past of (await answer.json()).watches) {
      this.charts.get(`${past.watch}@${past.apiserver}`)?.load(past);
    }
  }
}
