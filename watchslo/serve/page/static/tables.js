// Tables whose rows are updated in place. The texts of the cells come from the daemon, in the order of the columns.

import { addressOf, count, element, setText } from "./text.js";

// A row with its cells and their texts: reading texts from the document is slow.
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

  // The key has the port of the apiserver, which the cells may leave out.
  contains(text) {
    return [...this.texts, this.row.dataset.key].some((own) => own.toLowerCase().includes(text));
  }
}

export class Rows {
  // `dress(row, line, isNew)` may change a row as a whole after its cells.
  constructor(table, dress = () => {}) {
    this.body = table.tBodies[0];
    this.dress = dress;
    this.rows = new Map([...this.body.rows].map((row) => [row.dataset.key, new Row(row)]));
    this.dressed = new Set();
  }

  set(key, line) {
    if (!this.rows.has(key)) {
      const row = element("tr", {}, element("th", { scope: "row" }), ...line.cells.slice(1).map(() => element("td")));
      row.dataset.key = key;
      this.rows.set(key, new Row(row));
      this.body.append(row);
    }
    const row = this.rows.get(key);
    row.set(line.cells);
    this.dress(row, line, !this.dressed.has(key));
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

const APISERVER = 1; // the cells of a watch that have its apiserver, and its quantile there
const QUANTILE = 4;
const MOST = 20; // rows of the matrix

// The quantile of each watch at each apiserver, the worst watches first; hidden if there is only one apiserver.
export class Matrix {
  constructor(table) {
    this.table = table;
    this.section = table.closest("section");
  }

  update(watches) {
    const names = new Map([...watches.values()].map((watch) => [watch.apiserver, watch.cells[APISERVER]]));
    const apiservers = [...names.keys()].sort();
    this.section.hidden = apiservers.length < 2;
    this.head(apiservers.map((apiserver) => names.get(apiserver)));
    const lines = new Map();
    for (const watch of watches.values()) {
      const unknown = apiservers.map(() => "–");
      const line = lines.get(watch.watch) ?? { key: watch.watch, cells: [watch.watch, ...unknown], bad: [], severity: watch.severity };
      const column = 1 + apiservers.indexOf(watch.apiserver);
      line.cells[column] = watch.bad && watch.condition !== "late" ? watch.condition : watch.cells[QUANTILE];
      line.bad[column] = watch.bad;
      line.severity = Math.min(line.severity, watch.severity);
      lines.set(watch.watch, line);
    }
    const worst = [...lines.values()].sort((one, other) => one.severity - other.severity || compare(one.key, other.key)).slice(0, MOST);
    const keys = worst.map(({ key }) => key);
    this.rows.keep(new Set(keys));
    worst.forEach((line) => this.rows.set(line.key, line));
    this.rows.order(keys);
  }

  // Other apiservers are other columns, and so another table.
  head(apiservers) {
    const headings = ["Watch", ...apiservers];
    if (headings.join("\n") === this.headings) return;
    this.headings = headings.join("\n");
    this.table.tHead.rows[0].replaceChildren(...headings.map((text) => element("th", { scope: "col" }, text)));
    this.table.tBodies[0].replaceChildren();
    this.rows = new Rows(this.table, ({ cells }, { bad }) => cells.forEach((cell, column) => cell.classList.toggle("bad", !!bad[column])));
  }
}

// The name of a watch links to its details; its text never changes.
function dress({ row, cells: [name] }, watch, isNew) {
  row.classList.toggle("bad", watch.bad);
  if (!isNew) return; // long names wrap at their dots
  const parts = watch.watch.split(/(?<=\.)/).flatMap((part, place) => (place ? [element("wbr"), part] : [part]));
  name.replaceChildren(element("a", { href: addressOf(watch.key) }, ...parts));
}

// The value that a column is sorted by: its heading names it in `data-sort`, as `events` or `judged.upper`. In a figure,
// null is infinite; elsewhere it is unknown.
function valueOf(watch, path) {
  const [name, part] = path.split(".");
  const value = watch[name];
  return part && value !== null ? value[part] ?? Infinity : value;
}

// Unknown values come before all others.
function compare(one, other) {
  if (one === other) return 0;
  return other !== null && (one === null || one < other) ? -1 : 1;
}

// The table of watches: sorted by its headings, filtered by a form.
export class Watches {
  constructor(table, form, output) {
    this.table = table;
    this.output = output;
    this.text = form.querySelector("[type=search]");
    this.unhealthy = form.querySelector("[type=checkbox]");
    this.rows = new Rows(table, dress);
    this.headings = [...table.tHead.rows[0].cells];
    this.sorted = this.headings.find((heading) => heading.ariaSort);
    this.descending = false;
    this.watches = new Map();
    this.headings.forEach((heading) => {
      const button = element("button", { type: "button", textContent: heading.textContent.trim() });
      button.addEventListener("click", () => this.sort(heading));
      heading.replaceChildren(button);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.arrange());
  }

  // The first click sorts figures in descending order and texts in ascending order.
  sort(heading) {
    this.descending = heading === this.sorted ? !this.descending : "descending" in heading.dataset;
    this.sorted.removeAttribute("aria-sort");
    this.sorted = heading;
    heading.ariaSort = this.descending ? "descending" : "ascending";
    this.arrange();
  }

  update(watches, changed) {
    this.watches = watches;
    this.rows.keep(watches);
    changed.forEach((watch) => this.rows.set(watch.key, watch));
    this.arrange();
  }

  arrange() {
    const path = this.sorted.dataset.sort;
    const sign = this.descending ? -1 : 1;
    const sorted = [...this.watches.values()].sort(
      (one, other) => sign * compare(valueOf(one, path), valueOf(other, path)) || compare(one.key, other.key),
    );
    this.rows.order(sorted.map((watch) => watch.key));
    const wanted = this.text.value.trim().toLowerCase();
    let shown = 0;
    for (const watch of sorted) {
      const row = this.rows.rows.get(watch.key);
      const hidden = (this.unhealthy.checked && !watch.bad) || !row.contains(wanted);
      if (row.row.hidden !== hidden) row.row.hidden = hidden;
      shown += !hidden;
    }
    setText(this.output, `${count(shown)} of ${count(sorted.length)}`);
  }
}
