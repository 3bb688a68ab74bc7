// The connection to the daemon: it reconnects by itself and reports when it is lost.

const SILENT_MS = 12000; // two evaluations and a margin: the figures are stale
const DEAD_MS = 30000; // three heartbeats: the connection only looks open
const RETRY_MS = 2000;

// The absolute value: a clock that was set back must not make a silent connection look recent.
const since = (then) => Math.abs(Date.now() - then);

export class Feed {
  // Calls `received(update, whole)` for each update and `state(connected)` at each change.
  constructor(url, received, state) {
    this.url = url;
    this.received = received;
    this.state = state;
    this.connected = true;
    this.receivedAt = Date.now();
    this.open();
    setInterval(() => this.check(), 1000);
    // Browsers allow six connections to one server: hidden tabs would leave none to visible ones.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.source.close() : this.open()));
  }

  open() {
    this.source?.close();
    this.opened = Date.now();
    this.source = new EventSource(this.url);
    this.source.addEventListener("full", (event) => this.take(event, true));
    this.source.addEventListener("delta", (event) => this.take(event, false));
    this.source.addEventListener("error", () => this.lost());
  }

  take(event, whole) {
    this.receivedAt = Date.now();
    this.received(JSON.parse(event.data), whole);
    this.report(true);
  }

  // The browser reconnects by itself after an interruption, but not after a refusal.
  lost() {
    this.report(false);
    if (this.source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || this.open(), RETRY_MS);
  }

  check() {
    if (document.hidden) return;
    if (since(this.receivedAt) > SILENT_MS) this.report(false);
    if (Math.min(since(this.receivedAt), since(this.opened)) > DEAD_MS) this.open();
  }

  report(connected) {
    if (connected !== this.connected || connected) this.state(connected);
    this.connected = connected;
  }
}
