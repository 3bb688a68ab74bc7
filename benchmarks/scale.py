"""`python -m benchmarks.scale --fastapiserver PATH` measures the daemon with hundreds of busy watches.

The apiservers are the Go program at PATH, which sends every event at once: what the daemon measures above that is its
own delay. `--minutes 30` runs the largest size for longer, to see whether memory grows.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks.blocks import Block, noting_blocks, read
from benchmarks.fast_apiservers import FastApiservers, fast_apiservers, watching_all
from benchmarks.measure import BLOCK_SECONDS, cpu_seconds, figure, memory
from tests.support.daemon import Daemon, Scrape

SECONDS = 75.0  # the window of a minute is then full
SCRAPE_INTERVAL_SECONDS = 15.0  # as Prometheus scrapes
SCRAPES, SCRAPE_GAP_SECONDS = 10, 1.1  # then, so that each gets a new snapshot
NAMED_BLOCKS = 5  # of the callbacks that took longest in long blocks
CUT_EVENTS, CUT_AFTER_SECONDS, CUT_SECONDS = 300, 10.0, 20.0
SIZES = {"1x100": (1, 100, 200), "3x100": (3, 100, 600), "3x300": (3, 300, 1_000)}
"""Apiservers, resources, and events per second that the daemon receives."""
WORST_P99_MS = {"1x100": 3.6, "3x100": 3.6, "3x300": 5.5}
"""What the estimator shows of the worst watch for events without any delay, by two ticks a second."""
CUT = "cut"
LARGEST = "3x300"

Beats = Mapping[float, float]
"""The number of heartbeats that were at most so many seconds late."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the daemon has counted of all watches so far.

    `p99` has the estimate of each watch in the last minute, and `p99_together` that of all watches of each apiserver,
    which exists only with several.
    """

    received: int
    samples: int
    beyond: int
    unmeasured: Counter[str] = field(default_factory=Counter)
    p99: Sequence[float] = ()
    p99_together: Sequence[float] = ()

    def since(self, earlier: "Figures") -> "Figures":
        return Figures(
            self.received - earlier.received,
            self.samples - earlier.samples,
            self.beyond - earlier.beyond,
            self.unmeasured - earlier.unmeasured,
            self.p99,
            self.p99_together,
        )


def figures(daemon: Daemon) -> Figures:
    """Read the figures of all watches from the status."""
    status = daemon.status()
    streams = status["watches"]
    unmeasured: Counter[str] = Counter()
    for stream in streams:
        unmeasured.update(stream["latency"]["unmeasured"])
    return Figures(
        received=sum(sum(stream["events"].values()) for stream in streams),
        samples=sum(stream["latency"]["events"] for stream in streams),
        beyond=sum(stream["latency"]["objective"]["verdicts"]["beyond"] for stream in streams),
        unmeasured=unmeasured,
        p99=[estimate for stream in streams for estimate in _p99(stream["latency"]["windows"])],
        p99_together=[
            estimate for each in status["apiservers"] if each["combined"] for estimate in _p99([each["combined"]])
        ],
    )


def _p99(windows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    for window in windows:
        if window["name"] == "1m" and window["events"]:
            yield from (quantile["estimate"] for quantile in window["quantiles"] if quantile["q"] == 0.99)


def until_measured(daemon: Daemon) -> Figures:
    """Wait until all received events are evaluated, and return the figures."""

    def evaluated() -> Figures | None:
        now = figures(daemon)
        return now if now.samples + now.unmeasured.total() == now.received else None

    return daemon.process.until(evaluated, "all events evaluated", every=1.0)


class Scrapes:
    """Times scrapes of one daemon: `took` has their seconds, `series` the number of series of the last one."""

    def __init__(self, daemon: Daemon) -> None:
        self.took: list[float] = []
        self.series = 0
        self.daemon = daemon

    def beats(self) -> Beats:
        """Scrape, and return the heartbeats of the daemon so far."""
        began = time.monotonic()
        text = self.daemon.answer("/metrics")
        self.took.append(time.monotonic() - began)
        lines = text.splitlines()
        self.series = sum(not line.startswith("#") for line in lines)
        lags = Scrape("\n".join(line for line in lines if "watchslo_loop_lag_seconds" in line) + "\n")
        family = lags.families["watchslo_loop_lag_seconds"]
        return {float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")}


def beats_between(before: Beats, after: Beats) -> Beats:
    return {edge: count - before[edge] for edge, count in after.items()}


def late_share(beats: Beats, seconds: float = 0.005) -> float:
    """Return the share of the heartbeats that were later than this, which must be an edge of the histogram."""
    return 1.0 - beats[seconds] / beats[float("inf")]


def latest(beats: Beats) -> float:
    """Return the edge that no heartbeat exceeded."""
    return min(edge for edge, count in beats.items() if count == beats[float("inf")])


def steady(program: Path, size: str, seconds: float) -> None:
    """Measure watches that all get events at random times."""
    apiservers, resources, rate = SIZES[size]
    print(f"\n{apiservers} x {resources} watches, {rate:,} events per second that are sent at once, {seconds:,.0f} s")
    with (
        TemporaryDirectory() as name,
        fast_apiservers(program, apiservers, resources) as served,
        watching_all(served, noting_blocks(blocks := Path(name) / "blocks")) as daemon,
    ):
        scrapes = Scrapes(daemon)
        first, start = scrapes.beats(), until_measured(daemon)
        figure("memory at the start", memory(daemon), "MiB")
        served.reset_statistics()
        served.set_rate(rate / apiservers)
        began, before = time.monotonic(), _spent(served, daemon)
        _wait(scrapes, seconds)
        sent, took = served.statistics(), time.monotonic() - began
        spent = [100 * (now - then) / took for now, then in zip(_spent(served, daemon), before, strict=True)]
        beats = scrapes.beats()
        figure("events sent", sent["written"] / took, "per second")
        _report_latencies(sent, figures(daemon), size)
        figure("CPU of the daemon", spent[0], "% of a core", "<= 35" if size == LARGEST else "")
        figure("  … of its threads that do not measure", spent[1], "% of a core")
        figure("CPU of the apiservers", spent[2], "% of a core")
        _report_blocks([block for block in read(blocks) if 0 <= block.ended - began <= took], took)
        _report_beats("", beats_between(first, beats))
        _report_scrapes(scrapes, beats)
        served.set_rate(0)
        _report_samples(until_measured(daemon).since(start), ">= 98")
        figure("memory at the end", memory(daemon), "MiB", "< 250")


def _spent(served: FastApiservers, daemon: Daemon) -> tuple[float, float, float]:
    """Return the CPU seconds of the daemon, of its threads that do not measure, and of the apiservers."""
    others = daemon.process.cpu_seconds_of_other_threads()
    return cpu_seconds(daemon.process), others, cpu_seconds(served.process)


def _wait(scrapes: Scrapes, seconds: float) -> None:
    """Scrape as Prometheus does; in a long run, also print the memory every minute."""
    end = time.monotonic() + seconds
    turn = 0
    while (left := end - time.monotonic()) > SCRAPE_INTERVAL_SECONDS:
        time.sleep(SCRAPE_INTERVAL_SECONDS)
        scrapes.beats()
        turn += 1
        if seconds > SECONDS and turn % 4 == 0:
            figure(f"memory after {turn // 4} min", memory(scrapes.daemon), "MiB")
    time.sleep(max(0.0, left))


def _report_latencies(sent: Mapping[str, Any], now: Figures, size: str) -> None:
    figure("from commit to write, in the apiserver: median", 1e3 * sent["delay_p50"], "ms")
    figure("  … P99", 1e3 * sent["delay_p99"], "ms")
    figure("worst P99 of a watch in the last minute", 1e3 * max(now.p99), "ms", f"<= {WORST_P99_MS[size]}")
    figure("median P99 of a watch", 1e3 * median(now.p99), "ms", "<= 1.6")
    if now.p99_together:
        figure("  … of all watches of an apiserver together", 1e3 * max(now.p99_together), "ms")


def _report_blocks(blocks: Sequence[Block], seconds: float) -> None:
    cpu = [block.cpu for block in blocks]
    figure("the longest block of the event loop", 1e3 * max((block.elapsed for block in blocks), default=0.0), "ms")
    figure("  … of its CPU alone", 1e3 * max(cpu, default=0.0), "ms", "<= 5")
    long = Counter(block.longest for block in blocks if block.cpu > 0.005)
    figure("  … blocks of more than 5 ms of CPU", long.total() / seconds, "per second", "0")
    for callback, count in long.most_common(NAMED_BLOCKS):
        print(f"    {count} times {callback}")


def _report_beats(when: str, beats: Beats) -> None:
    figure(f"heartbeats more than 5 ms late{when}", 100 * late_share(beats), "%", "<= 1")
    figure(f"  … the latest{when}, at most", 1e3 * latest(beats), "ms")


def _report_scrapes(scrapes: Scrapes, before: Beats) -> None:
    for _ in range(SCRAPES):
        time.sleep(SCRAPE_GAP_SECONDS)
        after = scrapes.beats()
    figure(f"a scrape of {scrapes.series:,} series: median", 1e3 * median(scrapes.took), "ms", "<= 500")
    figure("  … the slowest", 1e3 * max(scrapes.took), "ms", "<= 500")
    _report_beats(" while scraped every second", beats_between(before, after))


def _report_samples(now: Figures, goal: str = "") -> None:
    figure("share of events that became samples", 100 * now.samples / now.received, "%", goal)
    for reason, count in now.unmeasured.items():
        figure(f"  … unmeasured: {reason}", count, "events")
    figure("events beyond the threshold", now.beyond, "events", "0")


def cut(program: Path) -> None:
    """Measure how long watches are away that are cut at once."""
    print("\n300 watches cut at once, with the default limit of requests")
    with fast_apiservers(program, 1, 300) as served, watching_all(served) as daemon:
        start = until_measured(daemon)
        served.set_rate(CUT_EVENTS)
        time.sleep(CUT_AFTER_SECONDS)
        served.cut()
        served.process.until(lambda: served.statistics()["missing"] == 0, "all watches are back", every=0.2)
        back = served.statistics()["back"]
        figure("until a watch is back: median", median(back), "s")
        figure("  … the last", max(back), "s", "< 3")
        time.sleep(max(BLOCK_SECONDS, CUT_SECONDS - max(back)))
        served.set_rate(0)
        _report_samples(until_measured(daemon).since(start))


def scale(program: Path, seconds: float = SECONDS, only: Sequence[str] = ()) -> None:
    for size in SIZES:
        if not only or size in only:
            steady(program, size, seconds)
    if not only or CUT in only:
        cut(program)


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
@click.option("--seconds", default=SECONDS, help="Duration of the load; the P99 is that of the last minute.")
@click.option("--minutes", type=float, help=f"Run only {LARGEST}, for so long, and print the memory every minute.")
@click.option("--only", type=click.Choice([*SIZES, CUT]), multiple=True)
def main(fastapiserver: Path, seconds: float, minutes: float | None, only: tuple[str, ...]) -> None:
    if minutes:
        steady(fastapiserver, LARGEST, 60 * minutes)
    else:
        scale(fastapiserver, seconds, only)


if __name__ == "__main__":
    main()
