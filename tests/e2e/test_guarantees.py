"""Does my apiserver keep its word? Each event that it loses, repeats or swaps is counted as that, and nothing else."""

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, Simulator, config_file, watchslo
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.scribe import WRITTEN, Scribe
from tests.support.writer import Writer, configmap

RESOURCE = "configmaps"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CHANGES_A_SECOND = 20.0
OBJECTS = 20
CHECKED = 100  # events
LASTING_SECONDS = 10.0  # an answer to a tick, and the watch of an audit, end before that
EDITS = 5
PAST = 90  # changes before a replay; a watch cache keeps at least the last 100
SELECTED = 100  # checks of each guarantee, two of an event of a watch with a selector

BROKEN = {
    "lost-event": "reliable",
    "duplicate-event": "unique",
    "swapped-events": "ordered",
    "wrong-type": "typed",
    "backward-bookmark": "bookmarkable",
    "skipped-resume": "resumable",
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
        for stream in daemon.status()["watches"]
        if (found := {name: count for name, count in stream["guarantees"]["violations"].items() if count})
    }


def edited(simulator: Simulator, revision: int, since: int) -> list[int]:
    """Return the edited events since the edit of this number, of the stream that has this one: audits have others."""
    made = read(f"{simulator.announced['control']}/edits")["edits"]
    edits = list(zip(made["stream"], made["revision"], strict=True))[since:]
    watch = next(stream for stream, edit in edits if edit == revision)
    return [edit for stream, edit in edits if stream == watch]


def change(writer: Writer, numbers: Iterator[int]) -> None:
    """Change one of the objects."""
    number = next(numbers)
    writer.patch(f"{CONFIGMAPS}/kept-{number % OBJECTS}", {"metadata": {"annotations": {"number": str(number)}}})


def test_each_fault_of_an_apiserver_is_counted_as_the_guarantee_that_it_breaks(tmp_path: Path) -> None:
    """One fault after the other. Objects only change: a lost creation would be counted as `typed`, too."""
    watch = {"resource": RESOURCE, "representation": "metadata", "inventory": True, "list": "paged"}
    config, kubeconfig = config_file(tmp_path, watch=[watch], guarantees={"level": "full"}), tmp_path / "kubeconfig"
    with Simulator(tmp_path) as simulator, Writer(simulator.url) as writer:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        for number in range(OBJECTS):
            writer.create(CONFIGMAPS, configmap(f"kept-{number}"))
        with (
            Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon,
            repeated(1 / CHANGES_A_SECOND, partial(change, writer, count())),
        ):
            daemon.until_measuring(RESOURCE)
            assert violations(daemon) == {}
            due: dict[str, int] = {}
            for fault, guarantee in BROKEN.items():
                since = len(read(f"{simulator.announced['control']}/edits")["edits"]["revision"])
                simulator.control({"name": fault}, "/faults")
                if fault == "skipped-resume":
                    simulator.control({"name": "cut"}, "/faults")  # at once, and not again
                    simulator.control({"name": "cut", "on": False}, "/faults")
                logged = daemon.until_said("guarantee_violated", guarantee=guarantee)
                simulator.control({"name": fault, "on": False}, "/faults")
                edits = edited(simulator, logged["oldest"], since)
                due[guarantee] = len(edits)
                print(fault, due)
                daemon.process.until(lambda: violations(daemon) == {"service": due}, f"{due} are counted", LOOK_SECONDS)
                assert (logged["watch"], logged["apiserver"]) == (RESOURCE, "service")
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


def test_links_break_no_guarantee_until_one_loses_events_and_that_apiserver_is_named(
    assets: Assets, tmp_path: Path
) -> None:
    """Two real apiservers, each behind a proxy."""
    with (
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, apiservers=2) as plane,
        Proxy(tmp_path, "link-0", plane.apiservers[0].url, ca=plane.ca) as broken,
        Proxy(tmp_path, "link-1", plane.apiservers[1].url, ca=plane.ca) as sound,
    ):
        urls, kubeconfig = [broken.url, sound.url], tmp_path / "links"
        write_kubeconfig(kubeconfig, {"server": sound.url}, {"token": plane.token})
        config = config_file(tmp_path, watch=[{"resource": RESOURCE}], kubernetes={"apiservers": urls})
        with (
            Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon,
            Scribe(lambda: plane.apiservers[1].writer(plane.token), *WRITTEN[RESOURCE], "written"),
        ):

            def checked() -> bool:
                counts = [stream["guarantees"]["checked"]["reliable"] for stream in daemon.status()["watches"]]
                return len(counts) == len(urls) and min(counts) >= CHECKED

            daemon.process.until(checked, "events of both are compared", LOOK_SECONDS)
            assert violations(daemon) == {}
            due: Counter[str] = Counter()
            for fault, guarantee in ON_THE_WAY.items():
                watched = watch_connection(broken)  # a fault of the short watch of an audit breaks no guarantee
                with broken.fault(fault, 0.05, watched):
                    eventually(partial(has_edited, broken, fault), "events are edited", LOOK_SECONDS)
                due[guarantee] = edits(broken, fault)
                daemon.process.until(
                    lambda: violations(daemon) == {broken.announced["listen"]: dict(due)},
                    f"{due} are counted",
                    LOOK_SECONDS,
                )


def test_slower_one_of_two_apiservers_is_named(assets: Assets, tmp_path: Path) -> None:
    """As in the release test of a new version: two contexts, of which one has a way that is longer."""
    with (
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, apiservers=2) as plane,
        Proxy(tmp_path, "link", plane.apiservers[1].url) as link,
        Scribe(plane.writer, *WRITTEN[RESOURCE], "written"),
    ):
        old, new = plane.url, link.url
        ask = ("verify", "--duration", "20s", "--kubeconfig", plane.kubeconfig(), "--resource", RESOURCE, "-o", "json")
        with link.late("constant 400ms"):
            slower = watchslo(*ask, "--compare", "tests", "--compare", new, "--tolerance", "200ms")
        document = json.loads(slower.stdout)
        assert slower.returncode == 1, slower.stderr
        assert [one["apiserver"] for one in document["compared"]] == [urlsplit(url).netloc for url in (old, new)]
        first, second = document["compared"]
        assert second["listBehind"] - first["listBehind"] > 0.3
        assert not any(found["violations"] for found in document["guarantees"])


def has_edited(proxy: Proxy, fault: str) -> bool:
    return edits(proxy, fault) >= EDITS


def edits(proxy: Proxy, fault: str) -> int:
    """Return how many events a fault of a proxy has edited."""
    return int(read(f"{proxy.announced['control']}/edits")["edited"].get(fault, 0))


@pytest.mark.version("1.36")
def test_types_and_selectors_are_checked_while_objects_begin_and_cease_to_match(
    control_planes: Callable[[str], ControlPlane], minor: str, tmp_path: Path
) -> None:
    """A watch with a selector gets ADDED and DELETED of objects that only changed, which no check may call wrong."""
    watches: list[dict[str, Any]] = [
        {"resource": RESOURCE, "name": "everything"},
        {"resource": RESOURCE, "name": "web", "labelSelector": "app=web", "inventory": True, "list": "paged"},
        {"resource": RESOURCE, "name": "default", "namespace": "default", "inventory": True, "list": "parallel"},
    ]
    plane, names = control_planes(minor), [str(watch["name"]) for watch in watches]
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
            found = {name: stream["guarantees"]["checked"] for name, stream in daemon.watches_by_name().items()}
            least = min(found[name][guarantee] for name in ("web", "default") for guarantee in ("typed", "filtered"))
            return least >= SELECTED and "filtered" not in found["everything"]

        daemon.process.until(checked, "types and selectors are checked")
        violated = {name: stream["guarantees"]["violations"] for name, stream in daemon.watches_by_name().items()}
        assert [sum(violated[name].values()) for name in names] == [0, 0, 0], violated


def test_past_of_an_apiserver_is_verified(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        for number in range(PAST):
            writer.create(CONFIGMAPS, configmap(f"past-{number}"))
    ask = ("verify", "--duration", "20s", "--kubeconfig", control_plane.kubeconfig("past"), "-o", "json")

    def verified() -> dict[str, Any] | None:
        """Return the watch, unless the machine was too busy for the past: it stays in the cache."""
        done = watchslo(*ask, "--replay", "--resource", RESOURCE)
        watches = json.loads(done.stdout)["watches"]
        assert not any(any(watch["violations"].values()) for watch in watches), watches
        reached = [watch for watch in watches if watch["beganNow"] is None and watch["checked"]["reliable"] >= PAST]
        return reached[0] if reached and done.returncode == 0 else None

    assert eventually(verified, "the past is compared")["past"] >= PAST
