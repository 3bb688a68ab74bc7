"""`python -m benchmarks.exposition` measures how long an exposition takes to encode, and its size, by format.

All readings change before each encoding, as at every evaluation. The memory is what the first page of protobuf adds.
"""

import gzip
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from statistics import median

import click

from tests.unit.serve import readings
from watchslo.serve.exposition import PROTOBUF, ExpositionFormat, MetricsEncoder, negotiate
from watchslo.serve.metrics import Detail
from watchslo.snapshot import HistogramReading, NativeBuckets, Snapshot, StreamReading

WATCHES = (10, 60, 300)
ROUNDS = 30
POPULATED = 40  # native buckets of a busy watch
FORMATS = {"text": negotiate("", ""), "protobuf": ExpositionFormat(PROTOBUF, gzipped=False)}


def watches(count: int, rounds: int) -> list[tuple[StreamReading, ...]]:
    """Return the readings of each round: the counts of all buckets increase."""
    rng = random.Random(1)
    return [tuple(_changed(number, 100 * (one + 1), rng) for number in range(count)) for one in range(rounds)]


def _changed(number: int, events: int, rng: random.Random) -> StreamReading:
    track = readings.TRACK
    return replace(
        readings.TAIL,
        watch=f"watch-{number}",
        resource=f"resources-of-watch-{number}",
        track=replace(track, timespan=_histogram(track.timespan.edges, events, rng), hops=readings.HOPS),
    )


def _histogram(edges: Sequence[float], events: int, rng: random.Random) -> HistogramReading:
    counts = accumulate(rng.randrange(events) for _ in range(len(edges) + 1))
    native = NativeBuckets(3, 2**-10, 0, -56, tuple(rng.randrange(1, events) for _ in range(POPULATED)))
    return HistogramReading(tuple(edges), tuple(counts), events / 7, native)


def _memory() -> float:
    """Return the private memory of this process, in MiB."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _measure(encoder: MetricsEncoder, rounds: Sequence[tuple[StreamReading, ...]]) -> None:
    for name, form in FORMATS.items():
        took, body = [], b""
        for streams in rounds:
            snapshot: Snapshot = replace(readings.SNAPSHOT, streams=streams)
            began = time.perf_counter()
            pieces = encoder.encode(snapshot, form).pieces
            took.append(time.perf_counter() - began)
            body = b"".join(pieces)
        sizes = f"{len(body) / 1e3:10.1f} kB{len(gzip.compress(body, 1)) / 1e3:10.1f} kB gzipped"
        print(f"  {len(rounds[0]):4} {name:<10}{1000 * median(took):8.2f} ms{sizes}")


@click.command()
@click.option("--detail", type=click.Choice([*Detail]), default=Detail.BASIC)
def main(detail: str) -> None:
    print("Encoding of one scrape whose readings are all new: median time, and size")
    encoder = MetricsEncoder(Detail(detail))
    encoder.encode(readings.SNAPSHOT, FORMATS["text"])
    before = _memory()
    encoder.encode(readings.SNAPSHOT, FORMATS["protobuf"])
    print(f"  the first page of protobuf adds {_memory() - before:.1f} MiB")
    for count in WATCHES:
        _measure(encoder, watches(count, ROUNDS))


if __name__ == "__main__":
    main()
