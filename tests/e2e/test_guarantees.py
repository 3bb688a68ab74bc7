"""Faults that break a guarantee of watches: each is counted, as the right guarantee, at the right apiserver."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.cases import Traffic
from tests.fidelity.writing import Writing
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Simulator, config_file, watchslo
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.writer import configmap

RESOURCE = "configmaps"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CHANGES_A_SECOND = 20.0
CHECKED = 300  # events
LASTING_SECONDS = 10.0  # an answer to a tick, and the watch of an audit, end before that
EDITS = 5
PAST = 90  # changes before a replay; a watch cache keeps at least the last 100
SELECTED, SELECTED_SECONDS = 500, 180.0  # checks of each guarantee, two of an event of a watch with a selector

BROKEN = {
    "lost-event": "reliable",
    "lost-range": "reliable",
    "lost-delete": "reliable",
    "duplicate-event": "unique",
    "swapped-events": "ordered",
    "early-bookmark": "bookmarkable",
    "backward-bookmark": "bookmarkable",
    "skipped-resume": "resumable",
    "wrong-type": "typed",
}
"""The guarantee that each fault of the simulator breaks."""

ON_THE_WAY = {"lossy": "reliable", "duplicating": "unique", "swapping": "ordered"}
"""The guarantee that each fault of the proxy breaks."""


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def violations(daemon: Daemon) -> dict[str, dict[str, int]]:
    """Return the violations by apiserver and guarantee."""
    return {
        stream["apiserver"]: found
        for stream in daemon.status()["streams"]
        if (found := {name: count for name, count in stream["guarantees"]["violations"].items() if count})
    }


def edited(simulator: Simulator, revision: int) -> list[int]:
    """Return the revisions of the edited events of the stream that has this one: audits have streams of their own."""
    made = read(f"{simulator.announced['control']}/edits")["edits"]
    edits = list(zip(made["stream"], made["revision"], strict=True))
    watch = next(stream for stream, edit in edits if edit == revision)
    return [edit for stream, edit in edits if stream == watch]


@contextmanager
def simulated(folder: Path, watch: dict[str, object]) -> Iterator[tuple[Simulator, Daemon]]:
    """A simulated cluster, and a daemon that reads all events of this watch a second time."""
    with Simulator(folder) as simulator:
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        config = config_file(folder, watch=[watch], guarantees={"level": "full"})
        with Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            simulator.control({"resource": RESOURCE, "rate": CHANGES_A_SECOND}, "/workload")
            daemon.until_measuring(RESOURCE)
            yield simulator, daemon


@pytest.mark.parametrize("fault", BROKEN)
def test_fault_of_an_apiserver_is_counted_as_the_guarantee_that_it_breaks(fault: str, tmp_path: Path) -> None:
    options = {"inventory": True, "list": "paged"} if fault == "wrong-type" else {}
    watch = {"resource": RESOURCE, "representation": "metadata"}  # a repeated delete is known by the object's uid
    with simulated(tmp_path, watch | options) as (simulator, daemon):
        assert violations(daemon) == {}
        simulator.control({"name": fault}, "/faults")
        if fault == "skipped-resume":
            simulator.control({"name": "cut"}, "/faults")  # at once, and not again
            simulator.control({"name": "cut", "on": False}, "/faults")
        daemon.process.until(lambda: violations(daemon), "it is found")
        simulator.control({"name": fault, "on": False}, "/faults")
        logged = daemon.until_said("guarantee_violated")
        edits = edited(simulator, logged["oldest"])
        daemon.process.until(
            lambda: violations(daemon) == {"service": {BROKEN[fault]: len(edits)}},
            f"{len(edits)} are counted",
        )
        assert (logged["guarantee"], logged["watch"], logged["apiserver"]) == (BROKEN[fault], RESOURCE, "service")
        assert {logged["oldest"], logged["newest"]} <= {*edits}


def watch_connection(proxy: Proxy) -> int:
    """Return the number of the connection of the only watch, once it is known: it gets data long after it has asked."""

    def newest() -> tuple[float, int] | None:
        made = read(f"{proxy.announced['control']}/chunks")
        chunks = [(chunk["received"], chunk["connection"]) for chunk in made["chunks"]]
        late = [(at, number) for at, number in chunks if at - made["asked"].get(str(number), at) > LASTING_SECONDS]
        return max(late, default=None)

    _, number = eventually(newest, "the watch is known", LOOK_SECONDS)
    return number


@contextmanager
def between(folder: Path, assets: Assets) -> Iterator[tuple[list[Proxy], Daemon]]:
    """Three real apiservers, each behind a proxy, and a daemon that watches each."""
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, apiservers=3))
        proxies = [
            stack.enter_context(Proxy(folder, f"link-{number}", apiserver.url, ca=plane.ca))
            for number, apiserver in enumerate(plane.apiservers)
        ]
        urls = [proxy.url for proxy in proxies]
        kubeconfig = folder / "links"
        write_kubeconfig(kubeconfig, {"server": urls[0]}, {"token": plane.token})
        config = config_file(folder, watch=[{"resource": RESOURCE}], kubernetes={"apiservers": urls})
        traffic = Traffic("guarantees", rate=CHANGES_A_SECOND)
        writer = plane.apiservers[-1]
        stack.enter_context(Writing(lambda: writer.writer(plane.token), CONFIGMAPS, configmap, traffic, seed=1))
        daemon = stack.enter_context(Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig))

        def measured() -> bool:
            members = [stream["up"] and stream["membership"] == "member" for stream in daemon.status()["streams"]]
            return members == [True] * len(urls)

        daemon.process.until(measured, "all apiservers are measured", LOOK_SECONDS)
        yield proxies, daemon


def test_faults_between_an_apiserver_and_its_clients_are_counted_at_that_apiserver(
    assets: Assets, tmp_path: Path
) -> None:
    with between(tmp_path, assets) as ((broken, *_), daemon):
        name = broken.announced["listen"]
        due: Counter[str] = Counter()

        def edits(fault: str) -> int:
            count: int = read(f"{broken.announced['control']}/edits")["edited"].get(fault, 0)
            return count

        def enough(fault: str, before: int) -> bool:
            return edits(fault) >= before + EDITS

        for fault, guarantee in ON_THE_WAY.items():
            before = edits(fault)
            watched = watch_connection(broken)  # a fault of the short watch of an audit breaks no guarantee
            with broken.fault(fault, 0.05, watched):
                daemon.process.until(partial(enough, fault, before), "events are edited")
            due[guarantee] += edits(fault) - before
            daemon.process.until(lambda: violations(daemon) == {name: dict(due)}, f"{due} are counted")


def test_healthy_apiservers_break_no_guarantee(assets: Assets, tmp_path: Path) -> None:
    with between(tmp_path, assets) as (_, daemon):

        def checked() -> bool:
            counts = [stream["guarantees"]["checked"]["reliable"] for stream in daemon.status()["streams"]]
            return min(counts, default=0) >= CHECKED

        daemon.process.until(checked, "events are compared")
        assert violations(daemon) == {}


@pytest.fixture(params=["control_plane", "old_control_plane"])
def plane(request: pytest.FixtureRequest) -> ControlPlane:
    found: ControlPlane = request.getfixturevalue(request.param)
    return found


def test_types_and_selectors_are_checked_while_objects_begin_and_cease_to_match(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """A watch with a selector gets ADDED and DELETED of objects that only changed, which no check may call wrong."""
    watches: list[dict[str, Any]] = [
        {"resource": RESOURCE, "name": "everything"},
        {"resource": RESOURCE, "name": "web", "labelSelector": "app=web", "inventory": True, "list": "paged"},
        {"resource": RESOURCE, "name": "default", "namespace": "default", "inventory": True, "list": "parallel"},
    ]
    names = [str(watch["name"]) for watch in watches]
    config = config_file(tmp_path, watch=watches, guarantees={"level": "full"})
    number = count()
    with (
        Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", plane.kubeconfig("selectors")) as daemon,
        plane.writer() as writer,
    ):
        daemon.until_measuring(*names)

        def checked() -> bool:
            name = f"selected-{next(number)}"
            writer.create(CONFIGMAPS, configmap(name, app="web"))
            for labels in ({"app": "db"}, {"tier": "1"}, {"app": "web"}, {"app": "web"}):
                writer.patch(f"{CONFIGMAPS}/{name}", {"metadata": {"labels": labels}, "data": {"last": name}})
            writer.delete(f"{CONFIGMAPS}/{name}")
            found = {name: stream["guarantees"]["checked"] for name, stream in daemon.streams().items()}
            least = min(found[name][guarantee] for name in ("web", "default") for guarantee in ("typed", "filtered"))
            return least >= SELECTED and "filtered" not in found["everything"]

        daemon.process.until(checked, "types and selectors are checked")
        violated = {name: stream["guarantees"]["violations"] for name, stream in daemon.streams().items()}
        assert [sum(violated[name].values()) for name in names] == [0, 0, 0], violated


def test_past_of_an_apiserver_is_verified(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        for number in range(PAST):
            writer.create(CONFIGMAPS, configmap(f"past-{number}"))
    ask = ("verify", "--duration", "40s", "--kubeconfig", control_plane.kubeconfig("past"), "-o", "json")

    def verified() -> dict[str, Any] | None:
        """Return the watch, unless the machine was too busy for the past: it stays in the cache."""
        done = watchslo(*ask, "--replay", "--resource", RESOURCE)
        watches = json.loads(done.stdout)["watches"]
        assert not any(any(watch["violations"].values()) for watch in watches), watches
        reached = [watch for watch in watches if watch["beganNow"] is None and watch["checked"]["reliable"] >= PAST]
        return reached[0] if reached and done.returncode == 0 else None

    assert eventually(verified, "the past is compared")["past"] >= PAST
