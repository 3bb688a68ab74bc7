"""A month of metrics of a large installation, generated as a block of the storage of Prometheus.

Recorded series are generated as well, because recording them takes a month. All of it ends at `UNTIL`.
"""

import itertools
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.prometheus import program
from watchslo.latency.bins import LES
from watchslo.rules import names
from watchslo.rules.timespans import CLASSIC

BLOCK_SECONDS = 31 * 86400
UNTIL = 640 * BLOCK_SECONDS + 30 * 86400 + 43200  # so that a month before it lies within one block
SCRAPE_SECONDS = 30
RECORDED_SECONDS = 60
MINUTE, HOUR, DAY = 60, 3600, 86400

Series = tuple[str, dict[str, str], int, int, float]
"""Name, labels, length in seconds, step, and increase in each step."""


def block(folder: Path, instances: int, resources: int) -> int:
    """Write the block to `folder` and return its number of samples."""
    return written(folder, _series(instances, resources))


def written(folder: Path, series: Iterable[Series]) -> int:
    """Write a block with these series to `folder` and return its number of samples."""
    text = folder / "samples.txt"
    samples = 0
    with text.open("w") as file:
        for name, labels, seconds, step, rise in series:
            label_text = ",".join(f'{key}="{value}"' for key, value in labels.items())
            times = range(UNTIL - seconds, UNTIL + 1, step)
            file.write("".join(f"{name}{{{label_text}}} {rise * at:.9g} {time}\n" for at, time in enumerate(times)))
            samples += len(times)
        file.write("# EOF\n")
    command = [
        program("promtool"),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        f"--max-block-duration={BLOCK_SECONDS}s",
    ]
    subprocess.run([*command, "--quiet", str(text), str(folder / "data")], check=True, capture_output=True)
    text.unlink()
    return samples


def _series(instances: int, resources: int) -> Iterator[Series]:
    watches = [{"apiserver": "10.0.0.1:6443", "resource": f"r{i}", "watch": f"r{i}"} for i in range(resources)]
    targets = [{"job": "watchslo", "instance": f"10.1.0.{i}:9477"} for i in range(instances)]
    for name, more, seconds, rise in itertools.chain(_exposed(), _recorded_of_instances()):
        step = RECORDED_SECONDS if ":" in name else SCRAPE_SECONDS
        for target, watch in itertools.product(targets, watches):
            yield name, {**target, **watch, **more}, seconds, step, rise
    for target in targets:
        yield from _of_instance(target)
    for name, more, seconds, rise in _recorded():
        for watch in watches:
            yield name, {**watch, **more}, seconds, 240 if name.endswith(":rate30m") else RECORDED_SECONDS, rise


Row = tuple[str, dict[str, str], int, float]


def _exposed() -> Iterable[Row]:
    for le in (*map(str, LES), "+Inf"):
        long = HOUR if le == "1.0" else 5 * MINUTE
        yield "watchslo_apiserver_timespan_seconds_bucket", {"le": le}, long, 60.0
    yield "watchslo_apiserver_timespan_seconds_count", {}, HOUR, 60.0
    for verdict in ("good", "bad", "undecided", "no_data"):
        yield "watchslo_slo_windows_total", {"verdict": verdict}, 15 * MINUTE, 0.5
    for reason in ("expired", "errors"):
        yield "watchslo_relists_total", {"reason": reason}, HOUR, 0.0
    yield "watchslo_expired_total", {}, 30 * MINUTE, 0.0
    yield "watchslo_stalls_total", {}, 30 * MINUTE, 0.0
    for guarantee in ("ordered", "reliable"):
        yield "watchslo_watch_guarantee_violations_total", {"guarantee": guarantee}, 15 * MINUTE, 0.0
    yield "watchslo_unmeasured_events_total", {}, 15 * MINUTE, 1.0
    for name in ("watch_up", "watch_stalled", "watch_history_fits"):
        yield f"watchslo_{name}", {}, 5 * MINUTE, 0.0


def _recorded_of_instances() -> Iterable[Row]:
    yield names.INSTANCE_EVENTS, {}, 5 * MINUTE, 0.1
    yield names.INSTANCE_LATE_EVENTS, {}, 5 * MINUTE, 0.001
    yield names.INSTANCE_UNMEASURED, {}, 5 * MINUTE, 0.01


def _recorded() -> Iterable[Row]:
    yield names.EVENTS, {}, 3 * DAY, 0.1
    yield names.LATE_EVENTS, {}, 3 * DAY, 0.001
    yield names.EVENTS_30M, {}, 30 * DAY, 0.1
    yield names.LATE_EVENTS_30M, {}, 30 * DAY, 0.001
    yield names.UNMEASURED, {}, 15 * MINUTE, 0.01
    yield names.INSTANCES, {}, DAY, 0.0
    yield names.LATE_INSTANCES, {}, 6 * HOUR, 0.0
    for verdict in ("good", "bad", "undecided"):
        yield names.WINDOWS, {"verdict": verdict}, DAY, 0.01
    for le in (*map(str, LES), "+Inf"):
        yield names.histogram(CLASSIC.metric), {"le": le}, 5 * MINUTE, 0.1
    for window in ("5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"):
        yield names.late_ratio(window), {}, 5 * MINUTE, 0.001
        if window != "30d":
            yield names.burn_rate(window), {}, 5 * MINUTE, 0.1


def _of_instance(target: dict[str, str]) -> Iterable[Series]:
    apiserver = {**target, "apiserver": "10.0.0.1:6443"}
    for name, labels, rise in (
        ("watchslo_time_travel_total", apiserver, 0.0),
        ("watchslo_apiserver_up", apiserver, 0.0),
        ("watchslo_clock_ticks_total", {**apiserver, "domain": "main", "result": "ok"}, 60.0),
        ("watchslo_clock_tick_seconds_bucket", {**apiserver, "domain": "main", "le": "0.005"}, 60.0),
        ("watchslo_clock_tick_seconds_bucket", {**apiserver, "domain": "main", "le": "+Inf"}, 60.0),
        ("watchslo_api_requests_total", {**apiserver, "kind": "watch", "code": "200"}, 1.0),
        ("watchslo_tainted_seconds_total", target, 0.0),
        ("watchslo_config_last_reload_successful", target, 0.0),
        ("watchslo_build_info", target, 0.0),
        ("up", target, 0.0),
    ):
        yield name, labels, 15 * MINUTE, SCRAPE_SECONDS, rise
