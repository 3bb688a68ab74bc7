"""`watchslo doctor` against a cluster in memory: what is asked, the output, the exit code, and its limits."""

import asyncio
import json
import math
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Log, nowhere
from tests.unit.monitor.inside import WALL_SECONDS
from watchslo.app.doctor import DoctorOptions, doctor
from watchslo.app.doctor.addresses import Reach
from watchslo.app.doctor.cluster import limited
from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.http_endpoint import DaemonCredentials
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.credentials import Access, Credentials, CredentialSource
from watchslo.model import Resource
from watchslo.watch.failure import Reason

Doctor = Callable[..., dict[str, Any]]
OPERATOR = "/apis/monitoring.coreos.com"
WATCHES = "watch: [{resource: pods}, {resource: nodes}]\n"


def secure(url: str = "https://service.test:443") -> CredentialSource:
    """Return credentials that are sent to verified servers only, as for witnesses."""

    async def load() -> Credentials:
        return Credentials(Access(url, tls=ssl.create_default_context()), {})

    return CredentialSource(load)


def direct() -> CredentialSource:
    """Return credentials for the address of one of the announced apiservers."""
    return secure("https://10.0.0.1:6443")


@pytest.fixture
def ask(
    monkeypatch: pytest.MonkeyPatch,
    run_jumping: Run,
    log: Log,
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Doctor:
    """Runs the command with a configuration; returns its JSON, and `text` for each (level, subject)."""
    del log
    for kind in ("podmonitors", "servicemonitors", "prometheusrules"):
        cluster.fail(Reason.NOT_FOUND, "discovery", f"{OPERATOR}/v1/namespaces/watchslo/{kind}")
    for path in ("v1/prometheuses", "v1alpha1/prometheusagents", "v1/thanosrulers"):
        cluster.fail(Reason.NOT_FOUND, "discovery", f"{OPERATOR}/{path}")
    cluster.fail(Reason.NOT_FOUND, "discovery", "/api/v1/namespaces/watchslo")
    cluster.date_skew = 0.0
    cluster._began_wall = WALL_SECONDS  # as the clock of `run_jumping`
    monkeypatch.setattr("watchslo.app.doctor.run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)

    def run(config: str = WATCHES, connection: Callable[[], CredentialSource] = nowhere) -> dict[str, Any]:
        monkeypatch.setattr("watchslo.app.doctor.connect", lambda *_: connection())
        file = tmp_path / "watchslo.yaml"
        file.write_text(config)
        code = doctor(file, None, None, DoctorOptions(), "json")
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert answer["exitCode"] == code
        assert not cluster.doors, "a connection is still open"
        return answer

    return run


@dataclass(frozen=True)
class Case:
    """A configuration and a cluster, whose findings a golden file holds."""

    prepare: Callable[[Cluster], object] = lambda _: None
    config: str = WATCHES
    connection: Callable[[], CredentialSource] = nowhere


def deny_rights(cluster: Cluster) -> None:
    cluster.reviews["access_review"] = {"allowed": False}


def hang(cluster: Cluster) -> None:
    cluster.hanging |= {"tick", "access_review"}


def hang_groups(cluster: Cluster) -> None:
    cluster.is_aggregated = False
    cluster.served += [Resource(f"group{number}.com", "v1", "widgets", namespaced=True) for number in range(6)]
    cluster.group_seconds = {f"/apis/group{number}.com/v1": math.inf for number in range(6)}


def serve_one_group(cluster: Cluster) -> None:
    cluster.served = [Resource("example.com", "v1", "widgets", namespaced=True)]
    cluster.fail(Reason.NOT_FOUND, "discovery", "/api")


def permit_one_namespace(cluster: Cluster) -> None:
    cluster.namespace = "mine"


def permit_one_namespace_without_events(cluster: Cluster) -> None:
    permit_one_namespace(cluster)
    cluster.fail(Reason.FORBIDDEN, "tick", "events")


def announce_two(cluster: Cluster) -> None:
    cluster.announce("10.0.0.1", "10.0.0.2")


def announce_a_dead_one(cluster: Cluster) -> None:
    announce_two(cluster)
    cluster.dead.add("10.0.0.2")


def announce_one_of_another_cluster(cluster: Cluster) -> None:
    announce_two(cluster)
    cluster.elsewhere["10.0.0.2"] = 1_000_000


def without_token() -> CredentialSource:
    async def load() -> Credentials:
        raise ConnectError("kubeconfig: no token; put one there")

    return CredentialSource(load)


MANY = "watch: [{resource: pods}, {resource: nodes}, {resource: unknowns}]\nlimits: {watches: 1}\n"
EACH = f"{WATCHES}kubernetes: {{apiservers: each}}\n"
ONE_ADDRESS = f"{WATCHES}kubernetes: {{apiservers: ['https://10.0.0.1:6443']}}\n"
CASES = {
    "healthy": Case(),
    "rights-denied": Case(deny_rights),
    "refused": Case(lambda cluster: cluster.fail(Reason.REFUSED)),
    "hanging": Case(hang),
    "discovery-unread": Case(lambda cluster: cluster.fail(Reason.SERVER_ERROR, "discovery", "/apis")),
    "resource-missing": Case(config=MANY),
    "group-stale": Case(lambda cluster: cluster.stale.add("metrics.k8s.io")),
    "groups-hanging": Case(hang_groups),
    "no-core-group": Case(serve_one_group, "watch: [{resource: widgets.example.com}]\n"),
    "nothing-served": Case(serve_one_group, "limits: {watches: 5}\n"),
    "events-forbidden": Case(lambda cluster: cluster.fail(Reason.FORBIDDEN, "tick", "events")),
    "one-namespace": Case(permit_one_namespace, "watch: [{resource: pods, namespace: mine}]\n"),
    "one-namespace-of-the-ticks-forbidden": Case(
        permit_one_namespace,
        "watch: [{resource: pods, namespace: mine}]\nclock: {namespace: other, storage: auto}\n",
    ),
    "one-namespace-without-events": Case(
        permit_one_namespace_without_events, "watch: [{resource: pods, namespace: mine}]\n"
    ),
    "another-storage": Case(lambda cluster: cluster.revisions.update(nodes=7_000)),
    "storage-forbidden": Case(
        lambda cluster: cluster.fail(Reason.FORBIDDEN, "detect_storage"), f"{WATCHES}clock: {{storage: auto}}\n"
    ),
    "storage-configured": Case(
        lambda cluster: cluster.fail(Reason.FORBIDDEN, "detect_storage"), f"{WATCHES}clock: {{storage: etcd}}\n"
    ),
    "storage-not-probed": Case(
        lambda cluster: cluster.fail(Reason.FORBIDDEN, "detect_storage"), f"{WATCHES}limits: {{probesPerSecond: 0}}\n"
    ),
    "each-of-two": Case(announce_two, EACH, secure),
    "each-of-two-unverified": Case(announce_two, EACH),
    "each-of-two-one-dead": Case(announce_a_dead_one, EACH, secure),
    "each-of-two-one-elsewhere": Case(announce_one_of_another_cluster, EACH, secure),
    "each-of-two-one-in-kubeconfig": Case(announce_two, EACH, direct),
    "service-of-two": Case(announce_two),
    "service-of-two-that-is-one": Case(announce_two, connection=direct),
    "witness-dead": Case(announce_a_dead_one, ONE_ADDRESS, secure),
    "no-token": Case(connection=without_token),
}


@pytest.mark.parametrize("name", CASES)
def test_findings_match_golden_file(
    name: str, ask: Doctor, cluster: Cluster, golden: Callable[[str, str], None]
) -> None:
    case = CASES[name]
    case.prepare(cluster)
    answer = ask(case.config, case.connection)
    requests = Counter(kind for _, kind, _ in cluster.asked)
    lines = [f"exit code {answer['exitCode']}: {answer['summary']}"]
    lines += [f"{one['level']}: {one['subject']}: {one['text']}" for one in answer["findings"]]
    lines += [f"requests: {kind} {requests[kind]}" for kind in ("access_review", "detect_storage", "tick", "probe")]
    golden(f"doctor/cluster/{name}.txt", "\n".join([*lines, ""]))
    assert not cluster.watches, "it opens no watch"


def test_dropped_packets_are_recognised(ask: Doctor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dropped(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(asyncio, "open_connection", dropped)
    cluster.fail(Reason.UNREACHABLE)
    (problem,) = (one["text"] for one in ask()["findings"] if one["level"] == "problem")
    assert "a connection to port 80 is neither accepted nor refused" in problem


def test_resource_replaces_forbidden_events_as_what_is_ticked_on(ask: Doctor, cluster: Cluster) -> None:
    cluster.fail(Reason.FORBIDDEN, "tick", "events")
    ask()
    assert cluster.count("tick", PODS.key) > 5


def test_each_apiserver_is_asked_only_if_its_name_is_verified(ask: Doctor, cluster: Cluster) -> None:
    announce_two(cluster)
    for config in (WATCHES, EACH):
        ask(config)
        assert cluster.asked_at["10.0.0.2:6443", "version"] == 0, "credentials are not sent to unverified servers"
    cluster.asked_at.clear()
    ask(EACH, secure)
    assert cluster.asked_at["10.0.0.2:6443", "tick"] == cluster.asked_at["10.0.0.1:6443", "tick"] - 3
    assert cluster.asked_at["service", "tick"] == 0


@pytest.mark.parametrize(
    ("option", "reach", "why"),
    [
        ("prometheus", Reach.DROPPED, "a connection to port 9090 is neither accepted nor refused"),
        ("alertmanager", Reach.DROPPED, "a connection to port 9090 is neither accepted nor refused"),
        ("prometheus", Reach.REFUSED, "the connection is refused."),
        ("prometheus", Reach.UNRESOLVED, "its name does not resolve."),
        ("prometheus", Reach.NO_ROUTE, "there is no route to it."),
    ],
)
def test_named_server_that_cannot_be_reached_is_one_problem(
    option: str,
    reach: Reach,
    why: str,
    ask: Doctor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def reached(_: str) -> Reach:
        return reach

    ask()
    monkeypatch.setattr("watchslo.app.doctor.tcp_reach", reached)
    options = DoctorOptions(**{option: "http://10.0.0.9:9090"})  # type: ignore[arg-type]
    assert doctor(tmp_path / "watchslo.yaml", None, None, options, "table") == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "10.0.0.9" in line)
    assert line.startswith("problem")
    assert f"http://10.0.0.9:9090: {why}" in line


def test_table_has_a_line_for_each_finding_and_the_summary(
    ask: Doctor, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask()
    cluster.reviews["access_review"] = {"allowed": False}
    assert doctor(tmp_path / "watchslo.yaml", None, None, DoctorOptions(), "table") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("problem      rights")
    assert "Apply the output of `watchslo rbac --config FILE`" in lines[0]
    assert lines[-1].startswith("Not right: ")


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        (DoctorOptions(namespace="a/b"), "--namespace: a/b is not the name of a namespace"),
        (DoctorOptions(prometheus="ftp://x"), "--prometheus: ftp://x is not the URL of a Prometheus"),
        (DoctorOptions(instance="http://u@h"), "--instance: the URL contains more than an address"),
        (DoctorOptions(alertmanager=""), "--alertmanager: "),
        (DoctorOptions(prometheus="http://x", job_selector="x"), "--job-selector: x is not a selector"),
        (DoctorOptions(prometheus="http://x", dashboards=Path("none")), "none has no dashboards"),
    ],
)
def test_unusable_options_are_refused_before_any_request(
    options: DoctorOptions, error: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchslo.app.doctor.connect", lambda *_: nowhere())
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    with pytest.raises(ConfigError, match=f"^{error}"):
        doctor(None, None, None, options, "table")
    assert not cluster.asked


def test_token_of_the_instance_is_not_sent_to_prometheus() -> None:
    options = DoctorOptions(credentials=DaemonCredentials(Path("t"), Path("ca"), insecure=True))
    assert options.monitoring_credentials == DaemonCredentials(None, Path("ca"), insecure=True)


class TestLimited:
    async def test_slow_check_is_not_checked(self) -> None:
        async def slow() -> list[Any]:
            await asyncio.Event().wait()
            return []

        (finding,) = await limited("x", slow(), 0.01)
        assert finding.level is FindingLevel.UNCHECKED

    async def test_missing_answer_is_not_checked(self) -> None:
        async def fail() -> list[Any]:
            raise ConnectError("the connection is refused")

        (finding,) = await limited("x", fail())
        assert (finding.level, finding.text) == (FindingLevel.UNCHECKED, "Not known: the connection is refused.")
