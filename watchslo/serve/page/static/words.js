// How figures read: as the daemon writes them.

export const ABSENT = "–";
export const SIGNS = { good: "✓", bad: "✗", unknown: "?" };

const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, useGrouping: false });
const whole = new Intl.NumberFormat("en");

export function count(number) {
  return number === null ? ABSENT : whole.format(number);
}

export function duration(seconds) {
  if (seconds === null) return ABSENT;
  if (seconds < 0.9995) return `${three.format(1000 * seconds)} ms`;
  return seconds < 99.95 ? `${three.format(seconds)} s` : `${seconds.toFixed(0)} s`;
}

export function estimate(figure) {
  if (!figure) return ABSENT;
  if (figure.resolved) return duration(figure.estimate);
  return figure.roundTrip ? `below ${duration(figure.roundTrip)}` : "unresolved";
}

export function bounds(figure) {
  return figure ? `${duration(figure.lower)} to ${figure.upper === null ? "∞" : duration(figure.upper)}` : ABSENT;
}

// Times come as RFC 3339, in UTC.
export const clock = (at) => at.slice(11, 19);
export const minute = (at) => at.slice(11, 16);
export const moment = (at) => `${at.slice(0, 10)} ${clock(at)}`;

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
