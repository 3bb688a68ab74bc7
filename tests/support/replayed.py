"""A recorded exposition of a real instance, served as that of many clusters whose counters continue to rise."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.background import ServerThread
from tests.support.control_plane import HOST
from tests.support.daemon import Daemon
from tests.support.process import eventually

COUNTING = {"counter", "histogram"}
TYPE = re.compile(r"^# TYPE (\S+) (\w+)$", re.MULTILINE)
OVERLOADED = "watchslo_tainted_seconds_total"
TAINTED_SHARE = 0.5
RECORDED_SECONDS = 20.0
LATENCY, PROMPT = "watchslo_apiserver_timespan_seconds", "1.0"
PATH = re.compile(r"/(\d+)/metrics")


@dataclass(frozen=True, slots=True)
class Recording:
    """Two scrapes of an instance, so many seconds apart."""

    first: str
    second: str
    seconds: float

    @classmethod
    def of(cls, daemon: Daemon, watch: str) -> "Recording":
        """Record a daemon that measures a watch, again until this machine kept up."""
        daemon.until_samples(watch, 10)

        def of_keeping_up() -> "Recording | None":
            began, first = time.monotonic(), daemon.scrape()
            time.sleep(RECORDED_SECONDS)
            took, second = time.monotonic() - began, daemon.scrape()

            def risen(name: str, **labels: str) -> float:
                return second.total(name, **labels) - first.total(name, **labels)

            late = risen(f"{LATENCY}_count") - risen(f"{LATENCY}_bucket", le=PROMPT)
            kept_up = late == 0 and risen(OVERLOADED) < 1 and risen("watchslo_clock_ticks_total", result="ok") > 0
            return cls(first.text, second.text, took) if kept_up else None

        return eventually(of_keeping_up, "a recording of a machine that keeps up")

    def after(self, elapsed: float, speed: float = 1.0, rates: Mapping[str, float] | None = None) -> str:
        """Return the exposition some seconds after the second scrape, with counters that rise `speed` times as fast.

        `rates` replace those of series by their whole name.
        """
        return "\n".join((*self._lines(elapsed, speed, rates or {}), ""))

    def _lines(self, elapsed: float, speed: float, rates: Mapping[str, float]) -> Iterator[str]:
        kinds = dict(TYPE.findall(self.second))
        before = dict(_samples(self.first))
        for line in self.second.splitlines():
            series, _, text = line.rpartition(" ")
            name = series.partition("{")[0]
            family = re.sub(r"_(?:total|bucket|count|sum)$", "", name)
            counts = COUNTING & {kinds.get(name), kinds.get(family)}
            if line.startswith("#") or not counts or series not in before:
                yield line
                continue
            risen = (float(text) - before[series]) / self.seconds * speed
            yield f"{series} {float(text) + rates.get(series, risen) * elapsed:.9g}"


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series and not line.startswith("#"):
            yield series, float(value)


class Replay(ServerThread):
    """Serves a recording at `/NUMBER/metrics`, each number as fast as no other one.

    `missing` numbers answer 503, and `overloaded` ones lose half of their time.
    """

    def __init__(self, recording: Recording) -> None:
        self.missing: set[int] = set()
        self.overloaded: set[int] = set()
        self._recording = recording
        self._began = time.monotonic()
        server = ThreadingHTTPServer((HOST, 0), self._handler())
        super().__init__(server)
        self.address = f"{HOST}:{server.server_address[1]}"

    def exposition(self, number: int) -> str:
        rates = {OVERLOADED: TAINTED_SHARE if number in self.overloaded else 0.0}
        return self._recording.after(time.monotonic() - self._began, 1 + number / 100, rates)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        replay = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = PATH.fullmatch(self.path)
                there = found is not None and int(found[1]) not in replay.missing
                body = replay.exposition(int(found[1])).encode() if found and there else b""
                self.send_response(200 if there else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        return Handler
