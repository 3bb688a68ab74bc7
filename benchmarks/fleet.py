"""`python -m benchmarks.fleet` counts the series of a rollup, and times the rules of the global level of a fleet.

Prometheus evaluates each rule once on synthetic rollups of `--clusters` clusters, each with two replicas. Nothing is
asserted.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.rules import installation, series, timed
from tests.support.prometheus import Prometheus
from tests.support.rollups import OWN_LABELS
from tests.support.synthetic import DAY, HOUR, MINUTE, RECORDED_SECONDS, Series, written
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.rollup import WORST, rollup_names
from watchslo.rules.settings import RuleSettings
from watchslo.serve.metrics import Detail

CLUSTERS, REPLICAS = 1000, ("a", "b")
WATCHES, APISERVERS = (10, 60, 300), (1, 3)
READ_SECONDS = {
    names.ROLLUP_LATE_EVENTS: 6 * HOUR,
    names.ROLLUP_EVENTS: DAY,
    names.ROLLUP_INSTANCES: DAY,
    names.ROLLUP_MEASURED_TIME: 30 * MINUTE,
}
"""How far back the rules read what they have recorded themselves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    arguments = parser.parse_args()
    print("\n| watches | apiservers | series of an instance | series of the rollup |\n|---|---|---|---|")
    rollup = len(rollup_names(Config())) - 1 + WORST
    for watches, apiservers in product(WATCHES, APISERVERS):
        _, every = series(installation(watches, apiservers), Detail.BASIC)
        print(f"| {watches} | {apiservers} | {every:,} | {rollup} |")
    with TemporaryDirectory() as folder:
        evaluate(Path(folder), arguments.clusters)


def evaluate(folder: Path, clusters: int) -> float:
    """Print how long each group of the global level takes, and return the elapsed seconds of all of them."""
    print(f"\n{clusters:,} clusters with {len(REPLICAS)} replicas each: every rule once, on synthetic data", flush=True)
    samples = written(folder, _stored(clusters))
    groups = fleet_groups(Config(), RuleSettings(cluster_label="cluster"))
    with Prometheus(folder, "http://127.0.0.1:1") as prometheus:
        return timed(prometheus, groups, samples)


def _stored(clusters: int) -> Iterator[Series]:
    """Yield the rollups of some minutes, and what the global level has recorded of them for as long as it reads it."""
    every = [{"cluster": f"cluster-{number}"} for number in range(clusters)]
    for name in rollup_names(Config()):
        parts = [{"watch": f"w{number}"} for number in range(WORST)] if name == names.ROLLUP_WORST else [{}]
        for cluster, part in product(every, parts):
            labels = {**cluster, **OWN_LABELS.get(name, {}), **part}
            for replica in REPLICAS:
                yield name, {**labels, "replica": replica}, 5 * MINUTE, RECORDED_SECONDS, 0.1
            yield names.in_fleet(name), labels, READ_SECONDS.get(name, 5 * MINUTE), RECORDED_SECONDS, 0.1
    for cluster in every:
        yield names.FLEET_REPLICA, {**cluster, "replica": "a"}, 5 * MINUTE, RECORDED_SECONDS, 0.1
        yield names.FLEET_REPORTING, cluster, 5 * MINUTE, RECORDED_SECONDS, 0.0
        yield names.in_fleet(names.rollup_burn_rate("5m")), cluster, 5 * MINUTE, RECORDED_SECONDS, 0.1


if __name__ == "__main__":
    main()
