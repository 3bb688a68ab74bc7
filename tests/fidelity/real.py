"""One run on a real kube-apiserver: writers record the bounds of each commit, a proxy when it forwarded each event.

The storage is etcd or kine. etcd reports each change to a watch of the proxy. SQLite is asked for its newest row all
the time. Postgres says when it committed each row, and the row is visible before the first watch delivers it.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fidelity.cases import Case, Traffic
from tests.fidelity.running import Plan, Run, daemons, judge, observe, started
from tests.fidelity.truth import Stamps, Truth
from tests.fidelity.writing import Writing
from tests.support import assets as programs
from tests.support import commit_times
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, Storage, override
from tests.support.kine import Kine, Postgres, Sqlite, SqliteWitness
from tests.support.process import Process
from tests.support.writer import Write, Writer

WATCH_PROXY = Path(__file__).with_name("watch_proxy.py")
COMMIT_TIMES = Path(commit_times.__file__)
SLOW_WRITERS = 24  # a write through the slow link takes as long as the link
SHARING = 10  # of the other busy watches, which see the same writes
OTHER_RATE = 2.0  # events per second of such a watch
APART_REVISIONS = 1000  # between two new etcds: with equal revisions they would look like one for some seconds


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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane whose first apiserver the daemon asks, and how to write to it.

    `commit_bounds` returns the earliest and latest time of each commit, if the database under kine says so. `own` are
    the etcds of places that have one of their own. If `timed`, a proxy makes revisions commit times.
    """

    plane: ControlPlane
    open_writer: Callable[[], Writer]
    commit_bounds: Callable[[], Mapping[int, tuple[float, float]]] = dict
    own: Mapping[Place, Etcd] = field(default_factory=dict)
    timed: bool = False

    def etcd_of(self, place: Place) -> str | None:
        """Return the URL of the etcd that has the objects of a place; None if that is kine."""
        storage = self.own.get(place, self.plane.storage)
        return storage.url if isinstance(storage, Etcd) else None


@contextlib.contextmanager
def on_etcd(
    folder: Path, assets: Assets, cases: Sequence[Case], *, partitioned: bool = False, timed: bool = False
) -> Iterator[Cluster]:
    """Run an apiserver on etcd.

    If `partitioned`, the place of each traffic has an etcd of its own, and all other resources share one. If `timed`,
    revisions are to be commit times.
    """
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        own: dict[Place, Etcd] = {}
        flags = []
        for place in PLACES.values() if partitioned else ():
            name, _, group = place.resource.partition(".")
            own[place] = stack.enter_context(Etcd(folder, assets.etcd, f"etcd-of-{name}"))
            own[place].advance(APART_REVISIONS * len(own))
            flags.append(override(f"{group}/{name}", own[place].url))
        plane = stack.enter_context(_plane(folder, assets, etcd, cases, flags))
        yield Cluster(plane, plane.writer, own=own, timed=timed)


@contextlib.contextmanager
def on_sqlite(folder: Path, assets: Assets, cases: Sequence[Case]) -> Iterator[Cluster]:
    """Run an apiserver on kine with SQLite."""
    kine = programs.find(os.environ, programs.KINE)
    database = Sqlite(folder)
    with (
        Kine(folder, kine, database) as storage,
        _plane(folder, assets, storage, cases) as plane,
        SqliteWitness(database) as witness,
    ):
        yield Cluster(plane, plane.writer, witness.commit_bounds)


@contextlib.contextmanager
def on_postgres(folder: Path, assets: Assets, *, through: int) -> Iterator[Cluster]:
    """Run two apiservers, each with a kine server of its own, on one Postgres.

    Writes go through the apiserver with the number `through`; the daemon asks the one with the number 0.
    """
    kine = programs.find(os.environ, programs.KINE)
    with (
        Postgres(folder) as database,
        Kine(folder, kine, database) as first,
        Kine(folder, kine, database, "other-kine") as second,
    ):
        plane = ControlPlane(folder, assets.kube_apiserver, first)
        plane.add(second.url)
        with plane:
            yield Cluster(plane, lambda: plane.apiservers[through].writer(plane.token), database.commit_bounds)


def without_a_slow_link(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that two apiservers allow, where no creation timestamps are measured."""
    return [replace(case, creation=False) for case in cases if case.hop != "storage"]


@contextlib.contextmanager
def _plane(
    folder: Path, assets: Assets, storage: Storage, cases: Sequence[Case], more_flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """Run an apiserver; its link to the storage is slow for one resource if a case needs that."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(_slow_link(folder, storage, case.law)) for case in cases if case.hop == "storage"]
        flags = [*more_flags, *(override(f"/{SLOW.resource}", link) for link in links)]
        yield stack.enter_context(ControlPlane(folder, assets.kube_apiserver, storage, flags=flags))


@contextlib.contextmanager
def _slow_link(folder: Path, storage: Storage, law: str) -> Iterator[str]:
    """Run a proxy before the storage that delays the answers, and yield its URL."""
    to = storage.url.removeprefix("http://")
    command = [sys.executable, "-m", "watchslo.sim.proxy", "--to", to, "--delay-to-client", law]
    with Process(folder, "slow-link", command) as process:
        yield f"http://{announced(process)['listen']}"


During = Callable[[Process, Process], contextlib.AbstractContextManager[None]]
"""What happens while a daemon measures, to the proxy on its way and to the daemon itself."""


def undisturbed(*_: Process) -> contextlib.AbstractContextManager[None]:
    """Let nothing happen."""
    return contextlib.nullcontext()


def run(plan: Plan, cluster: Cluster, during: During = undisturbed) -> Run:
    """Measure all cases at once; the second daemon's clock is wrong.

    If revisions are commit times, half of all seeds have reads with their own time.
    """
    notes = plan.folder / "proxy.json"
    writings = _writings(plan, cluster.open_writer)
    with contextlib.ExitStack() as proxies:
        times = proxies.enter_context(_commit_times(plan, cluster.plane)) if cluster.timed else None
        proxy = proxies.enter_context(_watch_proxy(plan, cluster, notes, times or cluster.plane.url))
        watches = {case: _watch(case) for case in plan.cases}
        observed = daemons(plan, announced(proxy)["url"], cluster.plane.token, watches, _other_watches(plan.more))
        with contextlib.ExitStack() as stack:
            for writing in (*writings.values(), *_other_writings(plan, cluster.open_writer)):
                stack.enter_context(writing)
            with started(observed):
                reports = observe(observed, plan.seconds, partial(during, proxy, observed[0].process))
    noted = json.loads(notes.read_bytes())
    if cluster.timed:
        commits = Stamps.of(json.loads(_times_notes(plan).read_bytes()))
        committed = dict.fromkeys(writings, (commits, commits))
    else:
        bounds = cluster.commit_bounds()
        committed = {
            place: _commits(writing.writes(), noted["committed"].get(cluster.etcd_of(place), noted["sent"]), bounds)
            for place, writing in writings.items()
        }
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


def _commits(
    writes: Iterable[Write], reports: Any, commit_bounds: Mapping[int, tuple[float, float]]
) -> tuple[Stamps, Stamps]:
    """Return the latest and the earliest time of each commit; `reports` are columns of when a commit was known."""
    reported = dict(zip(reports["revision"][::-1], reports["came"][::-1], strict=True))  # the first of each
    revisions, first, last = [], [], []
    for write in writes:
        assert write.revision is not None
        since, until = commit_bounds.get(write.revision, (write.before, write.after))
        revisions.append(write.revision)
        first.append(max(write.before, since))
        last.append(min(write.after, until, reported.get(write.revision, write.after)))
    return Stamps.of({"revision": revisions, "at": last}), Stamps.of({"revision": revisions, "at": first})


def _place(case: Case) -> Place:
    return SLOW if case.hop == "storage" else PLACES[case.traffic.name]


def _selector(case: Case) -> str:
    """Return the selector of a case. The daemon uses creation timestamps only without a selector."""
    return "" if case.creation else case.label


@contextlib.contextmanager
def _commit_times(plan: Plan, plane: ControlPlane) -> Iterator[str]:
    """Run a proxy that makes revisions commit times, and yield its URL. The clock of this storage is hours off."""
    settings = {
        "to": plane.url,
        "ca": str(plane.ca),
        "etcd": plane.etcd.url,
        "notes": str(_times_notes(plan)),
        "ahead": 2 * plan.ahead,
        "reads": plan.seed % 2 == 0,
    }
    with Process(plan.folder, "commit-times", [sys.executable, COMMIT_TIMES, json.dumps(settings)]) as process:
        yield announced(process)["url"]


def _times_notes(plan: Plan) -> Path:
    return plan.folder / "commit-times.json"


def _watch_proxy(plan: Plan, cluster: Cluster, notes: Path, to: str) -> Process:
    etcds = {cluster.etcd_of(place) for place in (SLOW, *PLACES.values())} - {None}
    laws = {_selector(case): case.law if case.hop == "client" else "none" for case in plan.cases}
    settings = {
        "to": to,
        "ca": str(cluster.plane.ca),
        "etcds": [*etcds],
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


def _other_writings(plan: Plan, open_writer: Callable[[], Writer]) -> Iterator[Writing]:
    groups = -(-plan.more // SHARING)
    for group in range(groups):
        make = partial(_object, {"group": f"g{group}"})
        yield Writing(open_writer, OTHERS.collection, make, Traffic("others", OTHER_RATE), plan.seed + 1 + group)


def _writings(plan: Plan, open_writer: Callable[[], Writer]) -> dict[Place, Writing]:
    """Return the writing for each place; its objects have the labels of all cases there."""
    writings = {}
    for place in dict.fromkeys(map(_place, plan.cases)):
        cases = [case for case in plan.cases if _place(case) == place]
        make = partial(_object, {case.label: "" for case in cases})
        threads = SLOW_WRITERS if place == SLOW else 1
        writings[place] = Writing(open_writer, place.collection, make, cases[0].traffic, plan.seed, threads)
    return writings


def _object(labels: Mapping[str, str], name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def announced(process: Process) -> Any:
    """Wait until a process listens, and return the JSON that it prints then."""
    process.until(lambda: "\n" in process.out, "listening")
    return json.loads(process.out.splitlines()[0])
