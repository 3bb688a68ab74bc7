"""One run on a real kube-apiserver: writers record the bounds of each commit, a proxy when it forwarded each event."""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fidelity.cases import Case, Traffic
from tests.fidelity.running import Plan, Run, daemons, judge, observe, started
from tests.fidelity.truth import Stamps, Truth
from tests.fidelity.writing import Writing
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.process import Process
from tests.support.writer import Write

WATCH_PROXY = Path(__file__).with_name("watch_proxy.py")
START_SECONDS = 90.0
SLOW_WRITERS = 24  # a write through the slow link takes as long as the link
SHARING = 10  # of the other busy watches, which see the same writes
OTHER_RATE = 2.0  # events per second of such a watch


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
OTHERS = Place("endpoints", f"{CORE}/endpoints")
"""The place of the other busy watches."""


@contextlib.contextmanager
def cluster(folder: Path, assets: Assets, cases: Sequence[Case]) -> Iterator[ControlPlane]:
    """Run an apiserver; its link to etcd is slow for one resource if a case needs that."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        links = [stack.enter_context(_slow_link(folder, etcd, case.law)) for case in cases if case.hop == "storage"]
        flags = [override(f"/{SLOW.resource}", link) for link in links]
        yield stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags))


@contextlib.contextmanager
def _slow_link(folder: Path, etcd: Etcd, law: str) -> Iterator[str]:
    """Run a proxy before etcd that delays the answers, and yield its URL."""
    to = etcd.url.removeprefix("http://")
    command = [sys.executable, "-m", "watchslo.sim.proxy", "--to", to, "--delay-to-client", law]
    with Process(folder, "slow-link", command) as process:
        yield f"http://{announced(process)['listen']}"


def run(plan: Plan, plane: ControlPlane) -> Run:
    """Measure all cases at once; the second daemon's clock is wrong."""
    notes = plan.folder / "proxy.json"
    writings = list(_writings(plan, plane))
    with _watch_proxy(plan, plane, notes) as proxy:
        watches = {case: _watch(case) for case in plan.cases}
        observed = daemons(plan, announced(proxy)["url"], plane.token, watches, _other_watches(plan.more))
        with contextlib.ExitStack() as stack:
            for writing in (*writings, *_other_writings(plan, plane)):
                stack.enter_context(writing)
            with started(observed):
                reports = observe(observed, plan.seconds)
    writes = [write for writing in writings for write in writing.writes()]
    return judge(plan, reports, _Known(writes, json.loads(notes.read_bytes())).truth)


class _Known:
    """The records of the writers and the proxy."""

    def __init__(self, writes: Iterable[Write], notes: Any) -> None:
        revisions, before, after = zip(*((write.revision, write.before, write.after) for write in writes), strict=True)
        answered = Stamps.of({"revision": revisions, "at": after})
        reported = Stamps.of(notes["committed"]).when(answered.revisions)
        self._first = Stamps.of({"revision": revisions, "at": before})
        self._last = Stamps(answered.revisions, np.minimum(answered.at, reported))
        self._sent = {name: np.array(column) for name, column in notes["sent"].items()}
        self._selectors = {int(number): selector for number, selector in notes["selectors"].items()}

    def truth(self, case: Case, number: int, received: Stamps) -> Truth:
        """Return the truth for the daemon with this number. The daemons open their watches in this order, each once."""
        watch = [watch for watch, selector in self._selectors.items() if selector == _selector(case)][number]
        mine = self._sent["connection"] == watch
        sent = Stamps.of({name: column[mine] for name, column in self._sent.items()})
        return Truth.of(received, sent, (self._last, self._first))


def _place(case: Case) -> Place:
    return SLOW if case.hop == "storage" else PLACES[case.traffic.name]


def _selector(case: Case) -> str:
    """Return the selector of a case. The daemon uses creation timestamps only without a selector."""
    return "" if case.creation else case.label


def _watch_proxy(plan: Plan, plane: ControlPlane, notes: Path) -> Process:
    laws = {_selector(case): case.law if case.hop == "client" else "none" for case in plan.cases}
    settings = {
        "to": plane.url,
        "ca": str(plane.ca),
        "etcd": plane.etcd.url,
        "laws": laws,
        "seed": plan.seed,
        "notes": str(notes),
    }
    return Process(plan.folder, "watch-proxy", [sys.executable, WATCH_PROXY, json.dumps(settings)])


def _watch(case: Case) -> dict[str, Any]:
    selected = {"labelSelector": _selector(case)} if _selector(case) else {}
    return {"resource": _place(case).resource, "namespace": "default", **selected}


def _other_watches(count: int) -> list[dict[str, Any]]:
    """Return watches with selectors that all differ, although `SHARING` of them select the same objects."""
    return [
        {
            "name": f"other-{number}",
            "resource": OTHERS.resource,
            "namespace": "default",
            "labelSelector": f"group in (g{number // SHARING},{number})",
        }
        for number in range(count)
    ]


def _other_writings(plan: Plan, plane: ControlPlane) -> Iterator[Writing]:
    groups = -(-plan.more // SHARING)
    for group in range(groups):
        make = partial(_object, {"group": f"g{group}"})
        yield Writing(plane.writer, OTHERS.collection, make, Traffic("others", OTHER_RATE), plan.seed + 1 + group)


def _writings(plan: Plan, plane: ControlPlane) -> Iterator[Writing]:
    """Yield the writing for each place; its objects have the labels of all cases there."""
    for place in dict.fromkeys(map(_place, plan.cases)):
        cases = [case for case in plan.cases if _place(case) == place]
        make = partial(_object, {case.label: "" for case in cases})
        threads = SLOW_WRITERS if place == SLOW else 1
        yield Writing(plane.writer, place.collection, make, cases[0].traffic, plan.seed, threads)


def _object(labels: Mapping[str, str], name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def announced(process: Process) -> Any:
    """Wait until a process listens, and return the JSON that it prints then."""
    process.until(lambda: "\n" in process.out, START_SECONDS, "listening")
    return json.loads(process.out.splitlines()[0])
