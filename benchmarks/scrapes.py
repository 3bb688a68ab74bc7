"""`python -m benchmarks.scrapes` measures what the readers of a daemon with 900 watches cost the loop that measures.

The serving threads and the event loop are those of the daemon. The readings are synthetic, and all of them change at
every evaluation. Beats on the loop show how late it is while an answer is made, compared with the time without
readers in the same run. The time for which the loop waited for a CPU is left out: that is the machine, not the daemon.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median, quantiles
from typing import NamedTuple

import click

from benchmarks.measure import figure
from tests.support.metric_messages import ACCEPT
from tests.unit.serve import readings
from watchslo.app.garbage import GarbageCollection
from watchslo.app.session import run_on_loop
from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.config.values import Listen
from watchslo.monitor.tasks.lag import cpu_wait_reader
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.feed import Feed
from watchslo.serve.http import create_app
from watchslo.serve.metrics import Detail
from watchslo.serve.server import StatusServer, listen, url
from watchslo.serve.snapshot_source import SnapshotSource
from watchslo.snapshot import HistogramReading, Snapshot, WatchReading

APISERVERS, RESOURCES = 3, 300
BEAT_SECONDS = 0.01  # the daemon's own 50 ms would give too few beats in an answer
EVALUATION_SECONDS = 2.0  # instead of 5 s, so that more answers are of new readings
CYCLES = 4  # evaluations in each phase
ROUNDS = 3
ONLOOKERS = 20
LATE_SECONDS = 0.005
OPENMETRICS = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8"


class Read(NamedTuple):
    """A request that is repeated after each evaluation, on as many connections at once."""

    what: str
    path: str
    headers: Mapping[str, str]
    connections: int = 1


READS = (
    Read("/metrics", "/metrics", {"Accept-Encoding": "identity"}),
    Read("/metrics, gzip", "/metrics", {"Accept-Encoding": "gzip"}),
    Read("/metrics, OpenMetrics, gzip", "/metrics", {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"}),
    Read("/metrics, protobuf, gzip", "/metrics", {"Accept": ACCEPT, "Accept-Encoding": "gzip"}),
    Read("/api/v1/status", "/api/v1/status", {}),
    Read("/", "/", {}),
    Read(f"/api/v1/events, {ONLOOKERS} readers", "/api/v1/events", {}, ONLOOKERS),
)


class Beat(NamedTuple):
    """One beat of the loop: when it was due, how late it was, and without the wait for a CPU."""

    due: float
    late: float
    own: float


class Answer(NamedTuple):
    """One answer, in monotonic seconds, and its size."""

    asked: float
    answered: float
    size: int


@dataclass
class Measured:
    """The answers of one kind, and the beats during them."""

    answers: list[Answer] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)

    def add(self, answers: Sequence[Answer], beats: Sequence[Beat]) -> None:
        self.answers += answers
        self.beats += [beat for beat in beats if any(_overlap(beat, answer) for answer in answers)]


def _overlap(beat: Beat, answer: Answer) -> bool:
    return beat.due - BEAT_SECONDS <= answer.answered and answer.asked <= beat.due + beat.late


class Synthetic:
    """A measuring loop whose evaluations have new readings of every watch."""

    def __init__(self) -> None:
        self.feed = Feed()
        self.evaluated = asyncio.Event()
        self.snapshot = replace(readings.SNAPSHOT, watches=tuple(_watches(0)))
        self._collection = GarbageCollection(lambda: 0)

    async def latest(self) -> Snapshot:
        """Return the watches of the last evaluation and new readings of the daemon itself, as the evaluator does."""
        return replace(self.snapshot, monitor=replace(readings.MONITOR, tainted_seconds=time.monotonic()))

    async def run(self) -> None:
        for number in count(1):
            await asyncio.sleep(EVALUATION_SECONDS)
            slices, streams = WorkSlices(), []
            for stream in _watches(number):
                streams.append(stream)
                await slices.pause()
            self.snapshot = replace(readings.SNAPSHOT, at_wall=time.time(), watches=tuple(streams))
            self.feed.observe(self.snapshot)
            self._collection.after_evaluation(self.snapshot)
            self.evaluated.set()
            self.evaluated = asyncio.Event()


def _watches(number: int) -> Iterator[WatchReading]:
    kinds = (readings.TAIL, readings.STALLED)
    for apiserver in range(APISERVERS):
        for resource in range(RESOURCES):
            yield _changed(kinds[resource % len(kinds)], f"watch-{resource}", f"10.0.0.{apiserver}:6443", number)


def _changed(stream: WatchReading, name: str, apiserver: str, number: int) -> WatchReading:
    track = stream.track
    return replace(
        stream,
        watch=name,
        resource=f"resources-of-{name}",
        apiserver=apiserver,
        received=replace(stream.received, bytes=number * 1000, bookmark_age=float(number)),
        track=replace(track, timespan=_more(track.timespan, number), hops=readings.HOPS),
    )


def _more(histogram: HistogramReading, number: int) -> HistogramReading:
    counts = tuple(n + number for n in histogram.counts)
    return replace(histogram, counts=counts, sum=histogram.sum + number / 7)


# --- measuring --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _beating() -> AsyncIterator[list[Beat]]:
    """Yield a list to which the beats of this loop are appended while the context lasts."""
    beats: list[Beat] = []
    beating = asyncio.create_task(_beat(beats))
    yield beats
    beating.cancel()


async def _beat(beats: list[Beat]) -> None:
    with cpu_wait_reader() as waited:
        while True:
            before, due = waited() or 0.0, time.monotonic() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            late = max(0.0, time.monotonic() - due)
            beats.append(Beat(due, late, max(0.0, late - ((waited() or 0.0) - before))))


async def _read(loop: Synthetic, address: str, read: Read, cycles: int) -> list[Answer]:
    """Read after each evaluation, in another process."""
    arguments = (address, read.path, json.dumps(read.headers), str(read.connections))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.reader", *arguments, stdin=pipe, stdout=pipe
    )
    assert process.stdin
    assert process.stdout
    await process.stdout.readline()  # it has started
    answers = []
    for _ in range(cycles):
        await loop.evaluated.wait()
        process.stdin.write(b"\n")
        answers.append(Answer(*json.loads(await process.stdout.readline())))
    process.stdin.close()
    await process.wait()
    return answers


@asynccontextmanager
async def _serving(detail: Detail) -> AsyncIterator[tuple[Synthetic, str]]:
    synthetic, listener = Synthetic(), listen(Listen("127.0.0.1", 0))
    source = SnapshotSource(synthetic.latest, asyncio.get_running_loop())
    app = create_app(source, lambda: None, MetricsEncoder(detail), synthetic.feed)
    server = StatusServer(app, listener, ServerLimitsConfig())
    server.start()
    running = asyncio.create_task(synthetic.run())
    try:
        yield synthetic, url(listener)
    finally:
        running.cancel()
        synthetic.feed.close()
        await server.stop()


async def _measure(detail: Detail, rounds: int, cycles: int) -> list[Measured]:
    """Return what was measured without readers, and with each of `READS`, in turn."""
    alone, *others = [Measured() for _ in range(1 + len(READS))]
    async with _serving(detail) as (synthetic, address):
        await _read(synthetic, address, READS[0], 1)  # connections, caches and the first evaluation
        for _ in range(rounds):
            async with _beating() as beats:
                began = time.monotonic()
                await asyncio.sleep(cycles * EVALUATION_SECONDS)
                alone.add([Answer(began, time.monotonic(), 0)], beats)
            for read, measured in zip(READS, others, strict=True):
                async with _beating() as beats:
                    measured.add(await _read(synthetic, address, read, cycles), beats)
    return [alone, *others]


def scrapes(detail: Detail = Detail.BASIC, rounds: int = ROUNDS, cycles: int = CYCLES) -> None:
    print(f"\nReaders of {APISERVERS * RESOURCES} watches, and how late the loop that measures is during an answer")
    figure("series", _series(detail), "", ">= 45,000")
    print(f"  {'':<30}{'answer, s':>15}{'MB':>6}   late, ms: P99    max  without waits: P99    max  >5 ms  beats")
    measured = run_on_loop(_measure(detail, rounds, cycles))
    for what, one in zip(("no reader", *(read.what for read in READS)), measured, strict=True):
        print(f"  {what:<30}{_answers(one.answers)}{_lateness(one.beats)}", flush=True)


def _answers(answers: Sequence[Answer]) -> str:
    """Return median and maximum duration, and the size."""
    seconds = [answer.answered - answer.asked for answer in answers if answer.size]
    if not seconds:
        return " " * 21
    return f"{median(seconds):8.3f}{max(seconds):7.3f}{max(answer.size for answer in answers) / 1e6:6.2f}"


def _lateness(beats: Sequence[Beat]) -> str:
    late, own = [1000 * beat.late for beat in beats], [1000 * beat.own for beat in beats]
    share = sum(beat.own > LATE_SECONDS for beat in beats) / len(beats)
    p99, own_p99 = (quantiles(values, n=100, method="inclusive")[98] for values in (late, own))
    return f"{p99:16.1f}{max(late):7.1f}{own_p99:20.1f}{max(own):7.1f}{share:7.2%}{len(beats):7}"


def _series(detail: Detail) -> int:
    snapshot = replace(readings.SNAPSHOT, watches=tuple(_watches(0)))
    body = MetricsEncoder(detail).encode(snapshot, negotiate("", "")).body
    return sum(not line.startswith(b"#") for line in body.splitlines())


@click.command()
@click.option("--detail", type=click.Choice([*Detail]), default=Detail.BASIC)
@click.option("--rounds", default=ROUNDS)
@click.option("--cycles", default=CYCLES)
def main(detail: str, rounds: int, cycles: int) -> None:
    scrapes(Detail(detail), rounds, cycles)


if __name__ == "__main__":
    main()
