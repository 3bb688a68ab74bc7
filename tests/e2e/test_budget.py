"""What a daemon says that it asked is what a real apiserver counted, and no object was read for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd
from tests.support.daemon import Daemon, Scrape, config_file
from tests.support.daemonset import CONTROL_PLANE, PROFILES
from tests.support.process import eventually
from tests.support.writer import Writer, pod

PODS = "/api/v1/namespaces/default/pods"
NODE = "node-1"
OBJECTS = 20
TICKS = 3  # the profile `node` sends two a minute
IN_FLIGHT = 3  # requests that the pause broke off: the apiserver had answered them
FETCHED = ("apiserver_cache_list_fetched_objects_total", "apiserver_storage_list_fetched_objects_total")
READ = "etcd_request_duration_seconds_count"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [f"system:serviceaccount:default:{name}" for name in ("node", CONTROL_PLANE)]},
        {"level": "None"},
    ],
}


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def plane(assets: Assets, audit_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that writes down what the daemons ask, with pods of two nodes."""
    folder = tmp_path_factory.mktemp("budget")
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    with Etcd(folder, assets.etcd) as etcd, ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane:
        with plane.writer() as writer:
            for number in range(OBJECTS):
                one = pod(f"pod-{number}")
                writer.create(PODS, one | {"spec": one["spec"] | {"nodeName": f"node-{1 + number % 2}"}})
        yield plane


def logged(audit_log: Path, account: str) -> int:
    """Return how many requests of an account the apiserver has begun to answer."""
    entries = [json.loads(line) for line in audit_log.read_text().splitlines() if line.endswith("}")]
    return len({entry["auditID"] for entry in entries if entry["user"]["username"].endswith(f":{account}")})


def answered(daemon: Daemon) -> float:
    """Return how many answers the daemon counts; requests without one have a reason in place of a code."""
    family = daemon.scrape().families["watchslo_api_requests"]
    return sum(one.value for one in family.samples if one.name.endswith("_total") and one.labels["code"].isdigit())


def fetched(writer: Writer) -> float:
    """Return how many pods and events the apiserver has fetched for lists, from its caches and from etcd."""
    counted = Scrape(writer.text("/metrics"))
    return sum(counted.total(name, resource=resource) for name in FETCHED for resource in ("pods", "events"))


def reads_of_etcd(writer: Writer) -> float:
    """Return how many lists of events the apiserver has requested from etcd."""
    return Scrape(writer.text("/metrics")).total(READ, operation="list", type="/events/")


def ticked(scrape: Scrape) -> float:
    """Return how many ticks were answered; the others may not have reached the apiserver."""
    return sum(scrape.total("watchslo_clock_ticks_total", result=result) for result in ("ok", "slow"))


@pytest.mark.parametrize("profile", ["node", CONTROL_PLANE])
def test_apiserver_counts_what_the_daemon_says_and_reads_no_object(
    plane: ControlPlane, audit_log: Path, tmp_path: Path, profile: str
) -> None:
    text = Template((PROFILES / profile / "watchslo.yaml").read_text()).substitute(NODE_NAME=NODE, HOST_IP="127.0.0.1")
    config = yaml.safe_load(text)
    config |= {"startDelay": "1s"} if "startDelay" in config else {"kubernetes": {"apiservers": [plane.url]}}
    kubeconfig = plane.kubeconfig(profile, {"token": plane.service_account(profile, EVERYTHING_READABLE)})
    with plane.writer() as writer:
        objects, reads = fetched(writer), reads_of_etcd(writer)
        with Daemon(tmp_path, "--config", config_file(tmp_path, **config), "--kubeconfig", kubeconfig) as daemon:
            daemon.until(lambda scrape: ticked(scrape) >= TICKS, "ticks")
            daemon.until(lambda scrape: min(scrape.values("watchslo_watch_up")) == 1.0, "all watches")
            config_file(tmp_path, **config, paused=True)
            eventually(lambda: "paused" in daemon.get("/readyz")[1], "a pause")

            def agree() -> bool:
                return 0 <= logged(audit_log, profile) - answered(daemon) <= IN_FLIGHT

            eventually(agree, "the same number of requests")
            ticks = ticked(daemon.scrape())
            assert fetched(writer) == objects
            # A request that the daemon gave up may have been read from etcd.
            assert ticks <= reads_of_etcd(writer) - reads <= logged(audit_log, profile)
