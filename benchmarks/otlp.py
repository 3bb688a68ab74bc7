"""`python -m benchmarks.otlp` measures what one push of metrics costs, and its size, by the form of the histograms.

All readings change before each push, as at every evaluation. CPU is that of reading the data points, of the encoding by
the SDK of OpenTelemetry, and of the compression.
"""

import gzip
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import click
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client import ProcessCollector

from benchmarks.exposition import ROUNDS, watches
from tests.unit.serve import readings
from watchslo.serve.metrics import Detail, exposed
from watchslo.serve.otlp.points import PointReader
from watchslo.snapshot import StreamReading

WATCHES = (10, 60)


def _measure(reader: PointReader, form: str, rounds: Sequence[tuple[StreamReading, ...]]) -> None:
    reading, rest, body = [], [], b""
    for streams in rounds:
        snapshot = replace(readings.SNAPSHOT, streams=streams)
        began = time.thread_time()
        points = reader.read(snapshot, time.time())
        read = time.thread_time()
        body = encode_metrics(points).SerializeToString()
        sent = gzip.compress(body)
        reading.append(read - began)
        rest.append(time.thread_time() - read)
    (resource,) = points.resource_metrics
    count = sum(len(metric.data.data_points) for metric in resource.scope_metrics[0].metrics)
    print(
        f"  {len(rounds[0]):4} {form:<12}{count:6} points{1000 * median(reading):8.1f} ms to read"
        f"{1000 * median(rest):8.1f} ms to encode{len(body) / 1e3:8.1f} kB{len(sent) / 1e3:8.1f} kB gzipped"
    )


@click.command()
@click.option("--detail", type=click.Choice([*Detail]), default=Detail.BASIC)
def main(detail: str) -> None:
    print("One push whose readings are all new: median CPU, and size")
    for count in WATCHES:
        for form in ("explicit", "exponential"):
            views, own = exposed(Detail(detail)), ProcessCollector(registry=None)
            reader = PointReader(views, own, 9477, exponential=form == "exponential")
            _measure(reader, form, watches(count, ROUNDS))


if __name__ == "__main__":
    main()
