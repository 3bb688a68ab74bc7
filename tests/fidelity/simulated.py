"""One run on the simulator, which records when it committed each revision and sent it to each client."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.fidelity.cases import Case
from tests.fidelity.running import Plan, Run, daemons, judge, observe, started
from tests.fidelity.truth import Stamps, Truth
from tests.fidelity.writing import Writing
from tests.support.daemon import Simulator
from tests.support.writer import Writer

STALLED = "secrets"  # written by this test, because the simulator's own writers never pause
PLACES = (
    "configmaps",
    "pods",
    "leases.coordination.k8s.io",
    "endpointslices.discovery.k8s.io",
    "services",
    "deployments.apps",
    "replicasets.apps",
    "jobs.batch",
    "nodes",
    "namespaces",
)
"""The resources of the other cases: each law needs a resource of its own."""
DRIFT = 2e-5  # of a storage's clock: 1.7 s a day
UNCERTAINTY = 0.005  # seconds of such a storage: Spanner's paper names 1 to 7 ms
APISERVERS = {
    "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["127.0.0.1"]}],
    "ports": [{"name": "https", "port": 6443}],
}
"""The announcement of the apiservers: the daemon uses creation timestamps only if there is one apiserver."""


def run(plan: Plan, *, timed: bool = False) -> Run:
    """Measure all cases at once; only the second daemon's clock agrees with the apiserver's.

    If `timed`, revisions are commit times, and half of all seeds have reads with the revision of the last commit.
    """
    resources = _resources(plan)
    clock = {"offset": 2 * plan.ahead, "drift": DRIFT, "uncertainty": UNCERTAINTY, "reads": plan.seed % 2 == 0}
    storage = {"commit_times": clock}
    config = json.dumps(_config(plan, resources, storage if timed else {}))
    with Simulator(plan.folder, "--seed", str(plan.seed), "--config", config) as simulator:
        with Writer(simulator.url) as writer:
            writer.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", APISERVERS)
        watches = {case: {"resource": resource} for case, resource in resources.items()}
        observed = daemons(plan, simulator.url, "none-is-needed", watches)
        with _stalling(plan, simulator.url), started(observed):
            reports = observe(observed, plan.seconds)
        known = {case: _Known(simulator, resource) for case, resource in resources.items()}
    return judge(plan, reports, lambda case, number, received: known[case].truth(number, received))


class _Known:
    """The simulator's records of a resource."""

    def __init__(self, simulator: Simulator, resource: str) -> None:
        url = f"{simulator.announced['control']}/truth?resource={resource}"
        with urllib.request.urlopen(url) as answer:
            truth: dict[str, Any] = json.load(answer)
        self._committed = Stamps.of(truth["commits"])
        self._sent = {name: np.array(column) for name, column in truth["sends"].items()}

    def truth(self, number: int, received: Stamps) -> Truth:
        """Return the truth for the daemon with this number. The daemons open their watch in this order, once."""
        streams = self._sent["stream"]
        mine = streams == np.unique(streams)[number]
        sent = Stamps.of({name: column[mine] for name, column in self._sent.items()})
        return Truth.of(received, sent, (self._committed, self._committed))


def _resources(plan: Plan) -> dict[Case, str]:
    places = iter(PLACES)
    return {case: STALLED if case.traffic.stalls else next(places) for case in plan.cases}


def _config(plan: Plan, resources: Mapping[Case, str], storage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"clock_offset": plan.ahead, **storage},
        "latency": [{"resource": resource, case.hop: case.law} for case, resource in resources.items()],
        "workload": [
            {"resource": resource, "rate": case.traffic.rate}
            for case, resource in resources.items()
            if not case.traffic.stalls
        ],
    }


@contextlib.contextmanager
def _stalling(plan: Plan, url: str) -> Iterator[None]:
    """Write the objects that the simulator does not write."""
    with contextlib.ExitStack() as stack:
        for case in plan.cases:
            if case.traffic.stalls:
                collection = f"/api/v1/namespaces/default/{STALLED}"
                writing = Writing(lambda: Writer(url), collection, _secret, case.traffic, plan.seed)
                stack.enter_context(writing)
        yield


def _secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {}}
