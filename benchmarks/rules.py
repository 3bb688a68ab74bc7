"""`python -m benchmarks.rules` counts the series of an instance, and times one evaluation of all rules in Prometheus.

Both figures are for planning a Prometheus; nothing is asserted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import cpu_seconds
from tests.support.collector import SnapshotCollector
from tests.support.prometheus import Prometheus
from tests.support.synthetic import UNTIL, block
from tests.unit.serve import readings
from watchslo.config.model import Config
from watchslo.rules.pack import rule_groups
from watchslo.rules.rule import RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.serve.metrics import Detail
from watchslo.snapshot import Snapshot, StreamReading

INSTANCES, RESOURCES = 50, 100
REPEATS = 3
WATCHES, APISERVERS = (10, 100, 500), (1, 3)


def main() -> None:
    print("\nSeries of an instance: of one watch at one apiserver, and all, without those of its process\n")
    print("| watches | apiservers | basic: one watch | all | full: one watch | all |")
    print("|---|---|---|---|---|---|")
    for watches in WATCHES:
        for apiservers in APISERVERS:
            counted = (series(installation(watches, apiservers), detail) for detail in (Detail.BASIC, Detail.FULL))
            shown = " | ".join(f"{one} | {every:,}" for one, every in counted)
            print(f"| {watches} | {apiservers} | {shown} |")
    with TemporaryDirectory() as folder:
        evaluate(Path(folder))


def installation(watches: int, apiservers: int) -> Snapshot:
    """Return healthy watches with `list: tail` of resources with a measured headroom, at each apiserver."""
    servers = tuple(f"10.0.0.{number}:6443" for number in range(apiservers))
    every = tuple(
        replace(readings.SERVICE, name=server, alone=readings.SERVICE.combined if apiservers > 1 else None)
        for server in servers
    )
    tickers = tuple(replace(readings.TICKER, apiserver=server) for server in servers)
    streams = tuple(stream for server in servers for stream in _streams(watches, server))
    domain = replace(readings.DOMAIN, tickers=tickers)
    return replace(readings.SNAPSHOT, apiservers=every, domains=(domain,), streams=streams, causes=())


def _streams(watches: int, server: str) -> Iterator[StreamReading]:
    for number in range(watches):
        name = f"things{number}"
        yield replace(readings.TAIL, watch=name, resource=name, apiserver=server)


def series(snapshot: Snapshot, detail: Detail) -> tuple[int, int]:
    """Return the number of series of the first watch, and of all watches."""
    first = snapshot.streams[0]
    samples = [sample for metric in SnapshotCollector(snapshot, detail).collect() for sample in metric.samples]
    of_first = {"watch": first.watch, "apiserver": first.apiserver}.items()
    return sum(of_first <= sample.labels.items() for sample in samples), len(samples)


def evaluate(folder: Path, instances: int = INSTANCES, resources: int = RESOURCES) -> float:
    """Print how long each group of rules takes, and return the elapsed seconds of all of them.

    Elapsed seconds depend on the current load of this machine; CPU seconds are also valid on a busy one.
    """
    print(f"\n{instances} instances with {resources} resources each: every rule once, on synthetic data", flush=True)
    samples = block(folder, instances, resources)
    with Prometheus(folder, "http://127.0.0.1:1") as prometheus:
        return timed(prometheus, rule_groups(Config(), RuleSettings()), samples)


def timed(prometheus: Prometheus, groups: Iterable[RuleGroup], samples: int) -> float:
    """Print how long each group takes on so many samples until `UNTIL`, and return the seconds of all of them."""
    print(f"({samples:,} samples; medians of {REPEATS})\n")
    print("| group | rules | seconds | of CPU |\n|---|---|---|---|")
    every = (0.0, 0.0)
    for group in groups:
        each = [_took(prometheus, rule.expression) for rule in group.rules]
        seconds, cpu = (sum(column) for column in zip(*each, strict=True))
        print(f"| {group.name}, every {group.interval:g} s | {len(group.rules)} | {seconds:.3f} | {cpu:.3f} |")
        every = every[0] + seconds, every[1] + cpu
    print(f"| all | | {every[0]:.3f} | {every[1]:.3f} |", flush=True)
    return every[0]


def _took(prometheus: Prometheus, expression: str) -> tuple[float, float]:
    """Return the elapsed seconds and the CPU seconds. `count` keeps the answer short."""
    took, spent = [], []
    for _ in range(REPEATS):
        before = cpu_seconds(prometheus.process)
        took.append(prometheus.seconds(f"count({expression})", UNTIL))
        spent.append(cpu_seconds(prometheus.process) - before)
    return median(took), median(spent)


if __name__ == "__main__":
    main()
