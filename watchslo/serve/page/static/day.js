// The last 24 hours of the objective: a strip of 1,440 minutes, and their counts as text.

import { count, minute, setText } from "./text.js";

const NO_DATA = "0";
const GOOD = "1";
const UNDECIDED = "2";
const BAD = "3";
const MINUTE = 60000;

export class Day {
  constructor(canvas, text) {
    this.canvas = canvas;
    this.text = text;
    this.day = null;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  update(day) {
    this.day = day;
    this.draw();
    const [none, good, undecided, bad] = [NO_DATA, GOOD, UNDECIDED, BAD].map(
      (verdict) => count([...day.minutes].filter((digit) => digit === verdict).length),
    );
    const last = day.minutes.includes(BAD) ? `; last bad minute ${this.timeOf(day.minutes.lastIndexOf(BAD))} UTC` : "";
    setText(this.text, `${good} minutes good, ${bad} bad, ${undecided} undecided, ${none} without data${last}.`);
  }

  timeOf(place) {
    const until = Date.parse(this.day.until);
    return minute(new Date(until - MINUTE * (this.day.minutes.length - 1 - place)).toISOString());
  }

  // Drawn in device pixels, bad minutes last and at least one pixel wide, so that no bad minute is hidden by others.
  draw() {
    if (!this.day) return;
    const { canvas, day: { minutes } } = this;
    const context = canvas.getContext("2d");
    canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
    canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
    const { width, height } = canvas;
    const style = getComputedStyle(document.documentElement);
    const [good, unsure, bad] = ["--good", "--unsure", "--bad"].map((name) => style.getPropertyValue(name));
    const bars = [[GOOD, height / 3, good], [UNDECIDED, height / 2, unsure], [BAD, height, bad]];
    for (const [wanted, high, colour] of bars) {
      context.fillStyle = colour;
      [...minutes].forEach((digit, place) => {
        if (digit !== wanted) return;
        const left = Math.floor(place * width / minutes.length);
        const right = Math.floor((place + 1) * width / minutes.length);
        context.fillRect(left, height - high, Math.max(1, right - left), high);
      });
    }
  }
}
