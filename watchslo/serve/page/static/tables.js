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
