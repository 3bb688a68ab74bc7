"""The least rights that the README names are enough, what is forbidden hurts nobody else, and rights may come later."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file
from tests.support.writer import Writer, configmap, pod

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

Rule = dict[str, list[str]]

WATCH: Rule = {
    "apiGroups": ["", "coordination.k8s.io"],
    "resources": ["configmaps", "leases"],
    "verbs": ["list", "watch"],
}
WATCH_PODS: Rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
LIST_SECRETS: Rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
TICK: Rule = {
    "apiGroups": [""],
    "resources": ["events"],
    "resourceNames": ["watchslo-reads-nothing"],
    "verbs": ["list"],
}
WATCHED = [{"resource": name} for name in ("configmaps", "leases.coordination.k8s.io", "pods", "secrets")]
AWAY_SECONDS = 60.0
FORGIVEN_SECONDS = 120.0  # the backoff may have come to its end: one try in 30 to 60 s

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def writer(control_plane: ControlPlane) -> Iterator[Writer]:
    with control_plane.writer() as writer:
        yield writer


@pytest.fixture(scope="module")
def daemons(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Daemon]]:
    """Daemons with the rights of new service accounts, by what is special in them."""
    rights = {"least": (WATCH, LIST_SECRETS, TICK), "no-events": (WATCH,), "none": ()}
    with contextlib.ExitStack() as stack:
        daemons = {}
        for name, rules in rights.items():
            account = f"rights-{name}"
            kubeconfig = control_plane.kubeconfig(account, {"token": control_plane.service_account(account, *rules)})
            folder = tmp_path_factory.mktemp(account)
            config = config_file(folder, watch=WATCHED)
            daemons[name] = stack.enter_context(Daemon(folder, "--config", config, "--kubeconfig", kubeconfig))
        yield daemons


def test_what_is_forbidden_hurts_nobody_and_is_found_when_granted(daemons: dict[str, Daemon], writer: Writer) -> None:
    daemon = daemons["least"]
    daemon.until_ready()
    for watch, verb in (("pods", "list"), ("secrets", "watch")):
        until_away(daemon, watch, f"may not {verb} the resource")
    writer.patch(f"{ROLES}/rights-least", {"rules": [WATCH, LIST_SECRETS, TICK, WATCH_PODS]})

    daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
    assert [entry["on"] for entry in daemon.log("ticking")] == [["events"]]
    daemon.until_sampled("configmaps", 1, lambda n: writer.create(CONFIGMAPS, configmap(f"rights-least-{n}")))
    daemon.until_measuring("pods", timeout=FORGIVEN_SECONDS)
    daemon.until_sampled("pods", 1, lambda n: writer.create(PODS, pod(f"rights-least-{n}")))

    scrape = daemon.scrape()
    assert scrape.value("watchslo_watches_closed_total", watch="secrets", **{"class": "credentials"}) >= 1
    assert scrape.total("watchslo_watches_closed_total", watch="configmaps") == 0
    assert [entry["reason"] for entry in daemon.log("list_failed") if entry["watch"] == "pods"] == ["forbidden"]


def until_away(daemon: Daemon, watch: str, why: str) -> None:
    """Waits until a watch is given up for now, because it is forbidden; now and then it is tried again."""

    def is_away() -> bool:
        stream = daemon.streams()[watch]
        failure = stream["lastFailure"] or {}
        return stream["state"] == "away" and failure["reason"] == "forbidden" and why in failure["message"]

    daemon.process.until(is_away, AWAY_SECONDS, f"{watch} is away: {why}", LOOK_SECONDS)


def test_without_events_two_others_take_turns(daemons: dict[str, Daemon], writer: Writer) -> None:
    daemon, watches = daemons["no-events"], ("configmaps", "leases.coordination.k8s.io")
    daemon.until_measuring(*watches)
    (ticking,) = daemon.log("ticking")
    assert sorted(ticking["on"]) == sorted(watches)
    assert daemon.status()["domains"][0]["ticksOn"] == ticking["on"]
    before = {watch: daemon.samples(watch) for watch in watches}
    writes: tuple[Callable[[int], object], ...] = (
        lambda n: writer.create(CONFIGMAPS, configmap(f"rights-no-events-{n}")),
        lambda n: writer.create(LEASES, {"metadata": {"name": f"rights-no-events-{n}"}}),
    )
    for watch, write in zip(watches, writes, strict=True):
        daemon.until_sampled(watch, before[watch] + 1, write)


def test_without_any_right_it_says_so(daemons: dict[str, Daemon]) -> None:
    daemons["none"].until_not_ready("This identity may not list the resource")
    assert daemons["none"].scrape().total("watchslo_watch_up") == 0
