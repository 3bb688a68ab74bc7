// The objective's last day: a strip of 1,440 minutes, and what it comes to in words.

import { count, minute, setText } from "./words.js";

const NO_DATA = "0";
const BAD = "2";
const MINUTE = 60000;

export class Day {
  constructor(canvas, text) {
    this.canvas = canvas;
    this.text = text;
    this.day = null;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  update(day) {
    this.day = day;
    this.draw();
    const bad = [...day.minutes].filter((digit) => digit === BAD).length;
    const none = [...day.minutes].filter((digit) => digit === NO_DATA).length;
    const last = bad ? `; the last bad one was ${this.timeOf(day.minutes.lastIndexOf(BAD))} UTC` : "";
    const good = day.minutes.length - bad - none;
    setText(this.text, `${count(good)} minutes good, ${count(bad)} bad, ${count(none)} without data${last}.`);
  }

  timeOf(place) {
    const until = Date.parse(this.day.until);
    return minute(new Date(until - MINUTE * (this.day.minutes.length - 1 - place)).toISOString());
  }

  draw() {
    if (!this.day) return;
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    const style = getComputedStyle(document.documentElement);
    const [good, bad] = ["--good", "--bad"].map((name) => style.getPropertyValue(name));
    context.clearRect(0, 0, width, height);
    [...this.day.minutes].forEach((digit, place) => {
      if (digit === NO_DATA) return;
      const high = digit === BAD ? height : height / 3;
      context.fillStyle = digit === BAD ? bad : good;
      context.fillRect(place, height - high, 1, high);
    });
  }
}
