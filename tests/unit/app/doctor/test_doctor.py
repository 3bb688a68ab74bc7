"""`watchslo doctor` against a cluster in memory: what is asked, the output, the exit code, and its limits."""

import asyncio
import json
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import PODS, Cluster, Log, nowhere
from tests.unit.monitor.conftest import WALL_SECONDS
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


def secure() -> CredentialSource:
    """Return credentials that are sent to verified servers only, as for witnesses."""

    async def load() -> Credentials:
        return Credentials(Access("https://service.test:443", tls=ssl.create_default_context()), {})

    return CredentialSource(load)


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


def levels(answer: dict[str, Any], subject: str) -> list[str]:
    return [finding["level"] for finding in answer["findings"] if finding["subject"] == subject]


def texts(answer: dict[str, Any], level: str) -> list[str]:
    return [finding["text"] for finding in answer["findings"] if finding["level"] == level]


def test_healthy_cluster_has_no_problem(ask: Doctor, cluster: Cluster) -> None:
    answer = ask()
    assert answer["exitCode"] == 0
    assert [finding["level"] for finding in answer["findings"]].count("warning") == 0
    for subject in ("addresses", "apiservers", "rights", "ticks", "wall clocks", "revisions"):
        assert levels(answer, subject) == ["good"], subject
    for subject in ("monitor", "instance", "Prometheus", "inhibitions"):
        assert levels(answer, subject) == ["unchecked"], subject
    assert cluster.count("access_review") == 9
    assert not cluster.watches, "it opens no watch"


def test_missing_rights_are_a_problem(ask: Doctor, cluster: Cluster) -> None:
    cluster.reviews["access_review"] = {"allowed": False}
    answer = ask()
    assert answer["exitCode"] == 1
    assert answer["findings"][0]["level"] == "problem", "the worst first"
    assert "This identity may not list and watch nodes and pods" in str(texts(answer, "problem"))


def test_unreachable_cluster_is_one_problem(ask: Doctor, cluster: Cluster) -> None:
    cluster.fail(Reason.REFUSED)
    answer = ask()
    assert answer["exitCode"] == 1
    assert len(texts(answer, "problem")) == 1
    for subject in ("ticks", "rights", "monitor"):
        assert "unchecked" in levels(answer, subject)
    assert cluster.count("access_review") == cluster.count("tick") == 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("clock: {storage: auto}", ["unchecked"]),
        ("clock: {storage: etcd}", []),
        ("limits: {probesPerSecond: 0}", []),
    ],
)
def test_only_a_storage_that_the_daemon_would_probe_is_asked_for(
    ask: Doctor, cluster: Cluster, more: str, expected: list[str]
) -> None:
    """A role that is written for another configuration lacks the right."""
    cluster.fail(Reason.FORBIDDEN, "detect_storage")
    assert levels(ask(f"{WATCHES}{more}\n"), "storage") == expected
    assert bool(cluster.count("detect_storage")) is bool(expected)


def test_dropped_packets_are_recognised(ask: Doctor, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dropped(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(asyncio, "open_connection", dropped)
    cluster.fail(Reason.UNREACHABLE)
    (problem,) = texts(ask(), "problem")
    assert "a connection to port 80 is neither accepted nor refused" in problem


def test_hanging_apiserver_ends_in_time(ask: Doctor, cluster: Cluster) -> None:
    cluster.hanging |= {"tick", "access_review"}
    answer = ask()
    assert levels(answer, "ticks") == levels(answer, "rights") == ["unchecked"]
    assert {"This took longer than 12 s.", "This took longer than 20 s."} <= {*texts(answer, "unchecked")}


def test_unread_discovery_leaves_clocks_checked(ask: Doctor, cluster: Cluster) -> None:
    cluster.fail(Reason.SERVER_ERROR, "discovery", "/apis")
    answer = ask()
    assert levels(answer, "ticks") == ["good"]
    assert levels(answer, "rights") == ["unchecked"]
    assert levels(answer, "resources") == ["problem"], "a daemon would never be ready"
    assert answer["exitCode"] == 1


def test_missing_resource_and_too_many_watches_are_problems(ask: Doctor) -> None:
    answer = ask("watch: [{resource: pods}, {resource: nodes}, {resource: unknowns}]\nlimits: {watches: 1}\n")
    assert levels(answer, "resources") == ["problem", "problem"]
    assert "the apiserver serves no resource unknowns" in str(texts(answer, "problem"))
    assert "1 watch beyond `limits.watches` will not run." in texts(answer, "problem")
    assert levels(answer, "rights") == ["unchecked"]


def test_stale_group_is_a_warning(ask: Doctor, cluster: Cluster) -> None:
    cluster.stale.add("metrics.k8s.io")
    answer = ask()
    assert levels(answer, "resources") == ["warning"]
    assert texts(answer, "warning") == [
        "Not all resources of metrics.k8s.io/v1 are known. The server of the API group does not answer discovery."
    ]


def test_hanging_groups_are_named_and_the_rest_is_checked(ask: Doctor, cluster: Cluster) -> None:
    cluster.is_aggregated = False
    cluster.served += [Resource(f"group{number}.com", "v1", "widgets", namespaced=True) for number in range(6)]
    cluster.group_seconds = {f"/apis/group{number}.com/v1": math.inf for number in range(6)}
    answer = ask()
    assert levels(answer, "ticks") == levels(answer, "rights") == ["good"]
    assert texts(answer, "warning")[0].startswith(
        "Not all resources of group0.com/v1, group1.com/v1, group2.com/v1 and 3 more are known."
    )


def test_cluster_without_a_core_group_is_checked(ask: Doctor, cluster: Cluster) -> None:
    cluster.served = [Resource("example.com", "v1", "widgets", namespaced=True)]
    cluster.fail(Reason.NOT_FOUND, "discovery", "/api")
    answer = ask("watch: [{resource: widgets.example.com}]\n")
    assert levels(answer, "resources") == []
    assert levels(answer, "ticks") == levels(answer, "rights") == ["good"]
    assert texts(ask("limits: {watches: 5}\n"), "problem")[0] == "The cluster serves nothing of what is configured."


def test_forbidden_events_are_replaced_by_a_watched_resource(ask: Doctor, cluster: Cluster) -> None:
    cluster.fail(Reason.FORBIDDEN, "tick", "events")
    assert levels(ask(), "ticks") == ["good"]
    assert cluster.count("tick", PODS.key) > 5


def test_resource_in_another_storage_is_a_warning(ask: Doctor, cluster: Cluster) -> None:
    cluster.revisions["nodes"] = 7_000
    answer = ask()
    assert levels(answer, "revisions") == ["warning", "good"]
    assert texts(answer, "warning")[0].startswith("nodes at service is numbered by another storage")


class TestApiservers:
    each = WATCHES + "kubernetes: {apiservers: each}\n"

    def test_each_apiserver_is_asked(self, ask: Doctor, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        answer = ask(self.each)
        assert "2 apiservers can be distinguished." in texts(answer, "good")
        assert cluster.asked_at["10.0.0.2:6443", "tick"] == cluster.asked_at["10.0.0.1:6443", "tick"] - 3
        assert cluster.asked_at["service", "tick"] == 0

    def test_dead_member_is_a_problem_and_others_are_checked(self, ask: Doctor, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        cluster.dead.add("10.0.0.2")
        answer = ask(self.each)
        assert [text.partition(":")[0] for text in texts(answer, "problem")] == ["10.0.0.2"]
        assert levels(answer, "ticks") == ["good"]

    def test_apiserver_of_another_cluster_is_a_problem(self, ask: Doctor, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        cluster.elsewhere["10.0.0.2"] = 1_000_000
        (problem,) = texts(ask(self.each), "problem")
        assert problem.startswith("10.0.0.2:6443 answers with revisions of another storage")

    def test_service_for_several_is_a_warning(self, ask: Doctor, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        assert levels(ask(), "apiservers") == ["warning"]
        assert cluster.asked_at["10.0.0.2:6443", "version"] == 0, "credentials are not sent to unverified servers"

    def test_dead_witness_is_a_warning(self, ask: Doctor, cluster: Cluster) -> None:
        cluster.announce("10.0.0.1", "10.0.0.2")
        cluster.dead.add("10.0.0.2")
        config = WATCHES + "kubernetes: {apiservers: ['https://10.0.0.1:6443']}\n"
        answer = ask(config, secure)
        assert answer["exitCode"] == 0
        assert levels(answer, "addresses") == ["warning", "good"]


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


def test_bad_credentials_are_a_problem(ask: Doctor) -> None:
    async def load() -> Credentials:
        raise ConnectError("kubeconfig: no token; put one there")

    answer = ask(connection=lambda: CredentialSource(load))
    assert texts(answer, "problem") == ["kubeconfig: no token; put one there."]


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
