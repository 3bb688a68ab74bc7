"""One run on a real kube-apiserver: writers record the bounds of each commit, a proxy when it forwarded each event.

etcd reports each change to a watch of the proxy: it is committed by then.
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fidelity.cases import Case
from tests.fidelity.running import Plan, Run, daemons, judge, observe, started
from tests.fidelity.truth import Stamps, Truth
from tests.fidelity.writing import Writing
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.daemon import Proxy
from tests.support.process import Process
from tests.support.writer import Write

WATCH_PROXY = "tests.fidelity.watch_proxy"
SLOW_WRITERS = 24  # a write through the slow link takes as long as the link


@dataclass(frozen=True, slots=True)
class Place:
    """A resource with objects that need only metadata, and the path of its collection."""

    resource: str
    collection: str


CORE, COORDINATION = "/api/v1/namespaces/default", "/apis/coordination.k8s.io/v1/namespaces/default"
PLACES = {
    "calm": Place("serviceaccounts", f"{CORE}/serviceaccounts"),
    "busy": Place("leases.coordination.k8s.io", f"{COORDINATION}/leases"),
    "stalling": Place("secrets", f"{CORE}/secrets"),
}
"""The place of each traffic. The label that a watch selects decides the law of the delays of its events."""
SLOW = Place("configmaps", f"{CORE}/configmaps")
"""The place with storage that may be slow."""


@contextlib.contextmanager
def control_plane(folder: Path, assets: Assets, cases: Sequence[Case]) -> Iterator[ControlPlane]:
    """Run an apiserver on etcd; its link to etcd is slow for one resource if a case needs that."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        flags = []
        for case in (one for one in cases if one.hop == "storage"):
            link = stack.enter_context(Proxy(folder, "slow-link", etcd.url))
            link.control({"law": case.law})
            flags.append(override(f"/{SLOW.resource}", link.url))
        yield stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags))


def run(plan: Plan, plane: ControlPlane) -> Run:
    """Measure all cases at once; the second daemon's clock is wrong."""
    notes = plan.folder / "proxy.json"
    writings = _writings(plan, plane)
    with _watch_proxy(plan, plane, notes) as proxy:
        watches = {case: _watch(case) for case in plan.cases}
        observed = daemons(plan, announced(proxy)["url"], plane.token, watches)
        with contextlib.ExitStack() as stack:
            for writing in writings.values():
                stack.enter_context(writing)
            with started(observed):
                reports = observe(observed, plan.seconds)
    noted = json.loads(notes.read_bytes())
    committed = {place: _commits(writing.writes(), noted["committed"]) for place, writing in writings.items()}
    return judge(plan, reports, _Known(committed, noted).truth)


class _Known:
    """The latest and the earliest time of each commit, by place, and the records of the proxy."""

    def __init__(self, committed: Mapping[Place, tuple[Stamps, Stamps]], notes: Any) -> None:
        self._committed = committed
        self._sent = {name: np.array(column) for name, column in notes["sent"].items()}
        self._selectors = {int(number): selector for number, selector in notes["selectors"].items()}

    def truth(self, case: Case, number: int, received: Stamps) -> Truth:
        """Return the truth for the daemon with this number. The daemons open their watches in this order, each once."""
        watch = [watch for watch, selector in self._selectors.items() if selector == _selector(case)][number]
        mine = self._sent["connection"] == watch
        sent = Stamps.of({name: column[mine] for name, column in self._sent.items()})
        return Truth.of(received, sent, self._committed[_place(case)])


def _commits(writes: Iterable[Write], reports: Any) -> tuple[Stamps, Stamps]:
    """Return the latest and the earliest time of each commit; `reports` are columns of when a commit was known."""
    reported = dict(zip(reports["revision"][::-1], reports["at"][::-1], strict=True))  # the first of each
    revisions, first, last = [], [], []
    for write in writes:
        assert write.revision is not None
        revisions.append(write.revision)
        first.append(write.before)
        last.append(min(write.after, reported.get(write.revision, write.after)))
    return Stamps.of({"revision": revisions, "at": last}), Stamps.of({"revision": revisions, "at": first})


def _place(case: Case) -> Place:
    return SLOW if case.hop == "storage" else PLACES[case.traffic.name]


def _selector(case: Case) -> str:
    """Return the selector of a case. The daemon uses creation timestamps only without a selector."""
    return "" if case.creation else case.label


def _watch_proxy(plan: Plan, plane: ControlPlane, notes: Path) -> Process:
    settings = {
        "to": plane.url,
        "ca": str(plane.ca),
        "etcd": plane.etcd.url,
        "laws": {_selector(case): case.law if case.hop == "client" else "none" for case in plan.cases},
        "seed": plan.seed,
        "notes": str(notes),
    }
    return Process(plan.folder, "watch-proxy", [sys.executable, "-m", WATCH_PROXY, json.dumps(settings)])


def _watch(case: Case) -> dict[str, Any]:
    selected = {"labelSelector": _selector(case)} if _selector(case) else {}
    return {"resource": _place(case).resource, "namespace": "default", **selected}


def _writings(plan: Plan, plane: ControlPlane) -> dict[Place, Writing]:
    """Return the writing for each place; its objects have the labels of all cases there."""
    writings = {}
    for place in dict.fromkeys(map(_place, plan.cases)):
        cases = [case for case in plan.cases if _place(case) == place]
        make = partial(_object, {case.label: "" for case in cases})
        threads = SLOW_WRITERS if place == SLOW else 1
        writings[place] = Writing(plane.writer, place.collection, make, cases[0].traffic, plan.seed, threads)
    return writings


def _object(labels: Mapping[str, str], name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def announced(process: Process) -> Any:
    """Wait until a process listens, and return the JSON that it prints then."""
    process.until(lambda: "\n" in process.out, "listening")
    return json.loads(process.out.splitlines()[0])
