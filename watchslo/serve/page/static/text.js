// Numbers and times as text, and text as elements. The cells of the tables come from the daemon as text.

export const SIGNS = { good: "✓", bad: "✗", unknown: "?" };

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

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

// The address of the details of a watch.
export const WATCH = "#watch=";
export const addressOf = (key) => WATCH + encodeURIComponent(key);

export function cause({ heading, evidence, cause: name, since, next }) {
  const small = element("small", {}, `${name}, since ${moment(since)} UTC`);
  return element("li", {}, element("strong", {}, heading), " ", small, element("p", {}, evidence), element("p", {}, next));
}

export function timelineEvent({ at: when, level, text }) {
  const time = element("time", { dateTime: when, title: `${moment(when)} UTC` }, clock(when));
  return element("li", { className: level }, time, `${SIGNS[level]} ${text}`);
}
