"""The least rights that the README names are enough, what is forbidden hurts nobody else, and rights may come later."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file
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
FORGIVEN_SECONDS = 60.0  # the backoff may have come to its end, and RBAC needs a moment too


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
    streams = daemon.streams()
    for watch, verb in (("pods", "list"), ("secrets", "watch")):
        assert streams[watch]["state"] == "away"
        assert streams[watch]["lastFailure"]["reason"] == "forbidden"
        assert f"may not {verb} the resource" in streams[watch]["lastFailure"]["message"]
    writer.patch(f"{ROLES}/rights-least", {"rules": [WATCH, LIST_SECRETS, TICK, WATCH_PODS]})

    daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
    assert [entry["on"] for entry in daemon.log("ticking")] == [["events"]]
    writer.create(CONFIGMAPS, configmap("rights-least"))
    daemon.until_measuring("pods", timeout=FORGIVEN_SECONDS)
    writer.create(PODS, pod("rights-least"))
    for watch in ("configmaps", "pods"):
        daemon.until_samples(watch, 1)

    scrape = daemon.scrape()
    assert scrape.value("watchslo_watches_closed_total", watch="secrets", **{"class": "credentials"}) >= 1
    assert scrape.total("watchslo_watches_closed_total", watch="configmaps") == 0
    assert [entry["reason"] for entry in daemon.log("list_failed") if entry["watch"] == "pods"] == ["forbidden"]


def test_without_events_two_others_take_turns(daemons: dict[str, Daemon], writer: Writer) -> None:
    daemon, watches = daemons["no-events"], ("configmaps", "leases.coordination.k8s.io")
    daemon.until_measuring(*watches)
    (ticking,) = daemon.log("ticking")
    assert sorted(ticking["on"]) == sorted(watches)
    assert daemon.status()["domains"][0]["ticksOn"] == ticking["on"]
    before = {watch: daemon.samples(watch) for watch in watches}
    writer.create(CONFIGMAPS, configmap("rights-no-events"))
    writer.create(LEASES, {"metadata": {"name": "rights-no-events"}})
    for watch in watches:
        daemon.until_samples(watch, before[watch] + 1)


def test_without_any_right_it_says_so(daemons: dict[str, Daemon]) -> None:
    daemons["none"].until_not_ready("This identity may not list the resource")
    assert daemons["none"].scrape().total("watchslo_watch_up") == 0
