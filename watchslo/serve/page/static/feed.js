// The connection to the daemon: comes back by itself, and says so when it is gone.

const SILENT_MS = 12000; // two evaluations and a bit: what stands here is old
const DEAD_MS = 30000; // three heartbeats: a connection that looks open
const AGAIN_MS = 2000;

// A clock that was set back must not make silence look young.
const since = (then) => Math.abs(Date.now() - then);

export class Feed {
  // `told(update, whole)` for all that comes, `state(connected)` whenever that changes.
  constructor(url, told, state) {
    this.url = url;
    this.told = told;
    this.state = state;
    this.connected = true;
    this.heard = Date.now();
    this.open();
    setInterval(() => this.look(), 1000);
    // Browsers have six connections for one server: tabs that nobody looks at would leave none to the others.
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
    this.heard = Date.now();
    this.told(JSON.parse(event.data), whole);
    this.say(true);
  }

  // The browser tries again where it was cut off, but not where it was refused.
  lost() {
    this.say(false);
    if (this.source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || this.open(), AGAIN_MS);
  }

  look() {
    if (document.hidden) return;
    if (since(this.heard) > SILENT_MS) this.say(false);
    if (Math.min(since(this.heard), since(this.opened)) > DEAD_MS) this.open();
  }

  say(connected) {
    if (connected !== this.connected || connected) this.state(connected);
    this.connected = connected;
  }
}
