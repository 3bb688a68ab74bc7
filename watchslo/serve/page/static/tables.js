// Tables whose rows are changed in place: what the daemon wrote as HTML is taken over, cell by cell.

import { ABSENT, bounds, clock, count, duration, element, estimate, minute, setText } from "./words.js";

const WORST_FIRST = ["stalled", "late", "closed", "not measured", "few events", "idle", "within"];
const BAD = new Set(WORST_FIRST.slice(0, 3));

export const isBad = (watch) => BAD.has(watch.condition);

function condition(watch) {
  if (watch.stalledFor !== null) return `${watch.condition} for ${duration(watch.stalledFor)}`;
  return isBad(watch) ? `${watch.condition} since ${minute(watch.since)}` : watch.condition;
}

const upper = (figure) => (figure ? figure.upper ?? Infinity : -1);
const middle = (figure) => (figure ? figure.estimate ?? Infinity : -1);

// Of each column: what stands in a cell, and what it is sorted by.
export const WATCHES = [
  [(w) => w.watch, (w) => w.watch],
  [(w) => w.apiserver, (w) => w.apiserver],
  [condition, (w) => WORST_FIRST.indexOf(w.condition)],
  [(w) => w.state, (w) => w.state],
  [(w) => estimate(w.p50), (w) => middle(w.p50)],
  [(w) => estimate(w.p99), (w) => middle(w.p99)],
  [(w) => bounds(w.p99), (w) => upper(w.p99)],
  [(w) => duration(w.threshold), (w) => w.threshold],
  [(w) => count(w.events), (w) => w.events],
  [(w) => (w.lastEvent ? clock(w.lastEvent) : ABSENT), (w) => w.lastEvent ?? ""],
  [(w) => count(w.behind), (w) => w.behind ?? -1],
  [(w) => count(w.closes), (w) => w.closes],
  [(w) => count(w.relists), (w) => w.relists],
  [(w) => count(w.expired), (w) => w.expired],
  [(w) => duration(w.bookmarkAge), (w) => w.bookmarkAge ?? -1],
  [(w) => w.failure ?? ABSENT, (w) => w.failure ?? ""],
];

function remembers(apiserver) {
  if (apiserver.remembers === null) return ABSENT;
  return `${duration(apiserver.remembers)} (${apiserver.remembersOf}${apiserver.fits === false ? ", too short" : ""})`;
}

export const APISERVERS = [
  (a) => a.name,
  (a) => (a.version ?? ABSENT) + (a.peers > 1 ? ` (stands for ${a.peers})` : ""),
  (a) => (a.watched ? `${a.open} of ${a.watches}` : "not watched"),
  (a) => a.failure ?? duration(a.tick),
  (a) => estimate(a.p50),
  (a) => estimate(a.p99),
  (a) => estimate(a.ownP99),
  (a) => duration(a.behindPeers),
  remembers,
  (a) => a.causes.join(", ") || ABSENT,
].map((text) => [text]);

// A row with its cells and what stands in them: asking the document for it is slow.
class Row {
  constructor(row) {
    this.row = row;
    this.cells = [...row.cells];
    this.texts = this.cells.map((cell) => cell.textContent);
  }

  set(texts) {
    texts.forEach((text, number) => {
      if (text === this.texts[number]) return;
      this.cells[number].textContent = text;
      this.texts[number] = text;
    });
  }

  says(text) {
    return this.texts.some((own) => own.toLowerCase().includes(text));
  }
}

export class Rows {
  // `dress(row, value, isNew)` may change a row as a whole after its cells.
  constructor(table, columns, dress = () => {}) {
    this.body = table.tBodies[0];
    this.columns = columns;
    this.dress = dress;
    this.rows = new Map([...this.body.rows].map((row) => [row.dataset.key, new Row(row)]));
    this.dressed = new Set();
  }

  set(key, value) {
    if (!this.rows.has(key)) {
      const row = element("tr", {}, element("th", { scope: "row" }), ...this.columns.slice(1).map(() => element("td")));
      row.dataset.key = key;
      this.rows.set(key, new Row(row));
      this.body.append(row);
    }
    const row = this.rows.get(key);
    row.set(this.columns.map(([text]) => text(value)));
    this.dress(row, value, !this.dressed.has(key));
    this.dressed.add(key);
  }

  keep(keys) {
    for (const [key, { row }] of this.rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.rows.delete(key);
      this.dressed.delete(key);
    }
  }

  order(keys) {
    if (keys.join("\n") === [...this.body.rows].map((row) => row.dataset.key).join("\n")) return;
    const focused = document.activeElement;
    this.body.append(...keys.map((key) => this.rows.get(key).row));
    if (focused !== document.activeElement) focused.focus({ preventScroll: true });
  }
}

// The name of a watch asks for its chart; its text never changes.
function dress({ row, cells: [name] }, watch, isNew) {
  row.classList.toggle("bad", isBad(watch));
  if (isNew) name.replaceChildren(element("button", { type: "button", title: "Show its chart", textContent: watch.watch }));
}

// The table of watches: sorted by its headings, filtered by a form.
export class Watches {
  constructor(table, form, output, chosen) {
    this.table = table;
    this.output = output;
    this.text = form.querySelector("[type=search]");
    this.bad = form.querySelector("[type=checkbox]");
    this.rows = new Rows(table, WATCHES, dress);
    this.headings = [...table.tHead.rows[0].cells];
    this.column = 2;
    this.descending = false;
    this.watches = new Map();
    this.headings.forEach((heading, number) => {
      const button = element("button", { type: "button", textContent: heading.textContent.trim() });
      button.addEventListener("click", () => this.sort(number));
      heading.replaceChildren(button);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.arrange());
    table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("th button")?.closest("tr");
      if (row) chosen(row.dataset.key);
    });
  }

  // Figures are looked through from the largest one on, words from the first.
  sort(column) {
    const numbers = column > 2 && column !== 3 && column !== 15;
    this.descending = column === this.column ? !this.descending : numbers;
    this.column = column;
    this.headings.forEach((heading, number) => {
      if (number === column) heading.ariaSort = this.descending ? "descending" : "ascending";
      else heading.removeAttribute("aria-sort");
    });
    this.arrange();
  }

  update(watches, changed) {
    this.watches = watches;
    this.rows.keep(watches);
    changed.forEach((watch) => this.rows.set(watch.key, watch));
    this.arrange();
  }

  arrange() {
    const by = WATCHES[this.column][1];
    const sign = this.descending ? -1 : 1;
    const sorted = [...this.watches.values()].sort((one, other) => {
      const [a, b] = [by(one), by(other)];
      if (a === b) return one.key < other.key ? -1 : 1;
      return a < b ? -sign : sign;
    });
    this.rows.order(sorted.map((watch) => watch.key));
    const wanted = this.text.value.trim().toLowerCase();
    let shown = 0;
    for (const watch of sorted) {
      const row = this.rows.rows.get(watch.key);
      const hidden = (this.bad.checked && !isBad(watch)) || !row.says(wanted);
      if (row.row.hidden !== hidden) row.row.hidden = hidden;
      shown += !hidden;
    }
    setText(this.output, `${count(shown)} of ${count(sorted.length)}`);
  }
}
