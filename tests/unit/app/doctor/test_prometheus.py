"""What a Prometheus answers about targets, versions and Alertmanagers, and what is said about it."""

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from tests.unit.app.doctor.server import serving, success, vector
from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.doctor.prometheus import check_alertmanagers, check_scrapes, scrape_findings, version_findings
from watchslo.app.prometheus_client import Prometheus, Sample, ScrapeTarget
from watchslo.errors import ConnectError

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
SELECTOR = 'job="watchslo"'


def up(instance: str, value: float) -> Sample:
    return Sample({"job": "watchslo", "instance": instance}, (1.5, str(value)))


def target(instance: str, error: str, job: str = "watchslo") -> ScrapeTarget:
    return ScrapeTarget({"job": job, "instance": instance}, error)


class TestScrapes:
    def test_targets_that_are_up_are_good(self) -> None:
        (finding,) = scrape_findings([up("a", 1), up("b", 1)], [], ["watchslo"], SELECTOR)
        assert (finding.level, finding.text) == (GOOD, 'Prometheus scrapes 2 targets with job="watchslo".')

    def test_other_job_is_suggested(self) -> None:
        (finding,) = scrape_findings([], [], ["watchslo-node", "watchslo-managed"], SELECTOR)
        assert finding.level is PROBLEM
        assert """pass --job-selector 'job="watchslo-managed"'""" in finding.remedy

    def test_no_target_and_no_metrics_points_to_the_monitor(self) -> None:
        (finding,) = scrape_findings([], [], [], SELECTOR)
        assert finding.level is PROBLEM
        assert "--job-selector" not in finding.remedy

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            ('Get "http://10.0.0.9:9477/metrics": context deadline exceeded', "are dropped"),
            ('Get "http://10.0.0.9:9477/metrics": dial tcp 10.0.0.9:9477: i/o timeout', "are dropped"),
            ('Get "http://10.0.0.9:9477/metrics": dial tcp: connect: connection refused', "is refused"),
            ("server returned HTTP status 401 Unauthorized", "requires a token"),
            ("server returned HTTP status 403 Forbidden", "may not read /metrics"),
            ("tls: failed to verify certificate: x509: unknown authority", "certificate is not accepted"),
            ("http: server gave HTTP response to HTTPS client", "speaks plain HTTP"),
            ("server returned HTTP status 400 Bad Request", "speaks TLS only"),
            ("anything else", "page of targets"),
            ("", "page of targets"),
        ],
    )
    def test_error_of_a_target_is_explained_without_its_address(self, error: str, text: str) -> None:
        targets = [target("a", "", "watchslo"), target("b", "x509", "other"), target("b", error)]
        (finding,) = scrape_findings([up("a", 1), up("b", 0)], targets, [], SELECTOR)
        assert finding.level is PROBLEM
        assert finding.text.startswith("1 of 2 targets cannot be scraped: ")
        assert text in finding.text
        assert "10.0.0.9" not in finding.text

    def test_dropped_packets_name_the_network_policy(self) -> None:
        (finding,) = scrape_findings([up("b", 0)], [target("b", "context deadline exceeded")], [], SELECTOR)
        assert "Ingress of the NetworkPolicy" in finding.remedy

    def test_different_reasons_are_different_findings(self) -> None:
        targets = [target("a", "x509"), target("b", "x509"), target("c", "connection refused")]
        found = [*scrape_findings([up("a", 0), up("b", 0), up("c", 0)], targets, [], SELECTOR)]
        assert [finding.text[:4] for finding in found] == ["2 of", "1 of"]


@pytest.mark.parametrize(
    ("versions", "levels"),
    [([], []), (["1.0"], [GOOD]), (["0.9"], [WARNING]), (["0.9", "1.0"], [WARNING])],
)
def test_version_findings(versions: list[str], levels: list[FindingLevel]) -> None:
    samples = [Sample({"version": version}, (0.0, "1")) for version in versions]
    assert [finding.level for finding in version_findings(samples, "1.0")] == levels


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


async def test_check_scrapes_asks_for_targets_and_versions() -> None:
    async with serving({"/api/v1/query": queries(QUERIES), "/api/v1/targets": TARGETS}) as endpoint:
        found = await check_scrapes(Prometheus(endpoint), SELECTOR, "1.0")
    assert [finding.level for finding in found] == [PROBLEM, GOOD]
    assert "certificate" in found[0].text


async def test_server_without_targets_still_shows_that_one_is_down() -> None:
    async with serving({"/api/v1/query": queries(QUERIES)}) as endpoint:
        found = await check_scrapes(Prometheus(endpoint), SELECTOR, "1.0")
    assert [finding.level for finding in found] == [PROBLEM, GOOD]
    assert "page of targets" in found[0].text


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (success({"activeAlertmanagers": [{"url": "http://a"}], "droppedAlertmanagers": []}), GOOD),
        (success({"activeAlertmanagers": [], "droppedAlertmanagers": []}), WARNING),
        ((404, ""), UNCHECKED),
    ],
)
async def test_check_alertmanagers(answer: object, level: FindingLevel) -> None:
    async with serving({"/api/v1/alertmanagers": answer}) as endpoint:
        (finding,) = await check_alertmanagers(Prometheus(endpoint))
    assert finding.level is level


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
