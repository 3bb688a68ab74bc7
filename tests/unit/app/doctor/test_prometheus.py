"""What a Prometheus answers about targets, versions and Alertmanagers, and what is said about it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from aiohttp import web

from tests.unit.app.doctor.server import Answers, serving, success, vector
from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor import DoctorOptions, _prometheus_check
from watchslo.app.doctor.findings import DeploymentFinding
from watchslo.app.doctor.prometheus import check_alertmanagers, check_scrapes, scrape_findings, version_findings
from watchslo.app.prometheus_client import PARTIAL, Prometheus, Sample, ScrapeTarget
from watchslo.config.model import Config
from watchslo.errors import ConnectError

SELECTOR = 'job="watchslo"'


def up(instance: str, value: float) -> Sample:
    return Sample({"job": "watchslo", "instance": instance}, (1.5, str(value)))


def target(instance: str, error: str, job: str = "watchslo") -> ScrapeTarget:
    return ScrapeTarget({"job": job, "instance": instance}, error)


def down(error: str) -> Iterable[DeploymentFinding]:
    """Return the findings about two targets, one of which cannot be scraped; and a target of another job."""
    targets = [target("a", "", "watchslo"), target("b", "x509", "other"), target("b", error)]
    return scrape_findings([up("a", 1), up("b", 0)], targets, [], SELECTOR)


def versions(*found: str) -> Iterable[DeploymentFinding]:
    return version_findings([Sample({"version": version}, (0.0, "1")) for version in found], "1.0")


ERRORS = (
    'Get "http://10.0.0.9:9477/metrics": context deadline exceeded',
    'Get "http://10.0.0.9:9477/metrics": dial tcp 10.0.0.9:9477: i/o timeout',
    'Get "http://10.0.0.9:9477/metrics": dial tcp: connect: connection refused',
    "server returned HTTP status 401 Unauthorized",
    "server returned HTTP status 403 Forbidden",
    "tls: failed to verify certificate: x509: unknown authority",
    "http: server gave HTTP response to HTTPS client",
    "server returned HTTP status 400 Bad Request",
    "anything else",
    "",
)
THREE_DOWN = [target("a", "x509"), target("b", "x509"), target("c", "connection refused")]
STATES: dict[str, Iterable[DeploymentFinding]] = {
    "two targets are up": scrape_findings([up("a", 1), up("b", 1)], [], ["watchslo"], SELECTOR),
    "other jobs": scrape_findings([], [], ["watchslo-node", "watchslo-managed"], SELECTOR),
    "no target and no metrics": scrape_findings([], [], [], SELECTOR),
    **{f"a target is down: {error}": down(error) for error in ERRORS},
    "down for two reasons": scrape_findings([up("a", 0), up("b", 0), up("c", 0)], THREE_DOWN, [], SELECTOR),
    "no version": versions(),
    "this version": versions("1.0"),
    "an older version": versions("0.9"),
    "two versions": versions("0.9", "1.0"),
}


def queries(answers: Mapping[str, object]) -> Any:
    return lambda request: answers[request.query["query"]]


QUERIES = {
    'up{job="watchslo"}': vector(({"job": "watchslo", "instance": "a"}, 0)),
    "count by (job) (watchslo_build_info)": vector(({"job": "watchslo"}, 1), ({}, 1)),
    'count by (version) (watchslo_build_info{job="watchslo"})': vector(({"version": "1.0"}, 1)),
}
TARGETS = success(
    {"activeTargets": [{"labels": {"job": "watchslo", "instance": "a"}, "lastError": "x509: bad", "health": "down"}]}
)
SERVERS: dict[str, Answers] = {
    "asked for queries and targets": {"/api/v1/query": queries(QUERIES), "/api/v1/targets": TARGETS},
    "asked for queries, and serves no targets": {"/api/v1/query": queries(QUERIES)},
}
ALERTMANAGERS: dict[str, Any] = {
    "an Alertmanager": success({"activeAlertmanagers": [{"url": "http://a"}], "droppedAlertmanagers": []}),
    "no Alertmanager": success({"activeAlertmanagers": [], "droppedAlertmanagers": []}),
    "Alertmanagers are not served": (404, ""),
}


async def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    found = {**STATES}
    for name, answers in SERVERS.items():
        async with serving(answers) as endpoint:
            found[name] = await check_scrapes(Prometheus(endpoint), SELECTOR, "1.0")
    for name, answer in ALERTMANAGERS.items():
        async with serving({"/api/v1/alertmanagers": answer}) as endpoint:
            found[name] = await check_alertmanagers(Prometheus(endpoint))
    said = findings_transcript(found)
    assert not [line for line in said.splitlines() if "10.0.0.9" in line and not line.startswith("#")]
    golden("doctor/prometheus.txt", said)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, "secret"), "it requires a valid token; pass one with --prometheus-token-file"),
        ((403, "secret"), "this identity may not read it"),
        ((404, "secret"), "check the URL and its path"),
        ((499, "secret"), "it answers 499"),
        ("<html>secret", "the answer is not one of a Prometheus"),
        (success({"resultType": "scalar"}), "the answer is not one of a Prometheus"),
    ],
)
async def test_unusable_answers_become_sentences(answer: object, why: str) -> None:
    async with serving({"/api/v1/query": answer}) as endpoint:
        with pytest.raises(ConnectError, match=why) as refused:
            await Prometheus(endpoint).query("up")
    assert "secret" not in str(refused.value)


async def test_doubts_about_answers_are_findings() -> None:
    answer = vector(({"job": "watchslo"}, 1)) | {"isPartial": True}
    async with serving({"/api/v1/query": answer}) as endpoint:
        found = await _prometheus_check(Config(), DoctorOptions(prometheus=endpoint.place))()
    assert [finding.text for finding in found if finding.subject == "Prometheus"] == [PARTIAL]


async def test_value_that_is_no_number_is_unknown() -> None:
    samples = [{"metric": {}, "value": [0, text]} for text in ("NaN", "many")]
    async with serving({"/api/v1/query": success({"resultType": "vector", "result": samples})}) as endpoint:
        found = await Prometheus(endpoint).query("up")
    assert all(math.isnan(sample.number) for sample in found)


async def test_query_reads_native_histograms_too() -> None:
    element = {"metric": {"watch": "pods"}, "histogram": [1.0, {"count": "1", "sum": "2", "buckets": []}]}
    async with serving({"/api/v1/query": success({"resultType": "vector", "result": [element]})}) as endpoint:
        (sample,) = await Prometheus(endpoint).query("sum(watchslo_hop_seconds)")
    assert sample.metric == {"watch": "pods"}


async def test_odd_entries_of_answers_cost_only_themselves() -> None:
    targets = success(
        {"activeTargets": [7, {"labels": {"job": 1}}, {"labels": {"job": "a"}, "lastError": None}, *GOOD_TARGETS]}
    )
    rule = {"name": "r", "query": "up"}
    groups = success({"groups": [{"name": "g", "rules": [rule, {"name": 7}, None]}, {"name": "h", "rules": None}, 7]})
    samples = success({"resultType": "vector", "result": [7, {"metric": {"watch": "pods"}, "value": [0, "1"]}]})
    answers = {"/api/v1/targets": targets, "/api/v1/rules": groups, "/api/v1/query": samples}
    async with serving(answers) as endpoint:
        prometheus = Prometheus(endpoint)
        assert await prometheus.targets() == [ScrapeTarget({"job": "b"})]
        assert [(group.name, len(group.rules)) for group in await prometheus.rule_groups()] == [("g", 1), ("h", 0)]
        assert [sample.metric for sample in await prometheus.query("up")] == [{"watch": "pods"}]


GOOD_TARGETS = [{"labels": {"job": "b"}}]


async def test_present_asks_for_recent_samples_of_these_metrics_only() -> None:
    asked: list[web.Request] = []
    async with serving({"/api/v1/label/__name__/values": success(["b"])}, asked) as endpoint:
        assert await Prometheus(endpoint).present({"b", "a:c"}) == {"b"}
    assert asked[0].query["match[]"] == '{__name__=~"a:c|b"}'
    assert float(asked[0].query["start"]) > 0
