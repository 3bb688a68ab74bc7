"""The alerts as a provisioning file of Grafana.

Grafana itself is not there to read it. So the shape is checked against the keys that Grafana documents for alert rules
in files, and each rule and query against the models of grafana-foundation-sdk.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import alerting, expr, prometheus
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tests.support.rule_document import document
from watchslo.app.rules import RulesOptions, as_yaml

Golden = Callable[[str, str], None]
OPTIONS = (RulesOptions("grafana", alerts="all"), RulesOptions("grafana", fleet="global", alerts="all"))


class _Documented(BaseModel):
    """Keys of https://grafana.com/docs/grafana/latest/alerting/set-up/provision-alerting-resources/file-provisioning."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class _TimeRange(_Documented):
    start: int = Field(alias="from")
    to: int


class _Query(_Documented):
    ref_id: str
    relative_time_range: _TimeRange
    datasource_uid: str
    model: dict[str, Any]


class _Rule(_Documented):
    uid: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,40}$")
    title: str = Field(max_length=190)
    condition: str
    data: list[_Query]
    wait: str = Field(alias="for", pattern=r"^\d+[smhd]$")
    no_data_state: Literal["NoData", "Alerting", "OK", "KeepLast"]
    exec_err_state: Literal["Error", "Alerting", "OK", "KeepLast"]
    labels: dict[str, str]
    annotations: dict[str, str]


class _Group(_Documented):
    org_id: int
    name: str = Field(max_length=190)
    folder: str
    interval: str = Field(pattern=r"^\d+[smh]$")
    rules: list[_Rule] = Field(min_length=1)


class _File(_Documented):
    api_version: Literal[1]
    groups: list[_Group]


def alerts(options: RulesOptions) -> Iterator[dict[str, Any]]:
    return (rule for group in document(None, options)["groups"] for rule in group["rules"])


def of_prometheus(options: RulesOptions) -> list[dict[str, Any]]:
    """Return the same alerts as Prometheus loads them."""
    groups = document(None, RulesOptions("plain", fleet=options.fleet, alerts="all"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def known(model: Any) -> Any:
    """Return what the SDK has understood of a document."""
    return json.loads(JSONEncoder().encode(model))


def test_alerts_of_the_defaults(golden: Golden) -> None:
    options = RulesOptions("grafana", datasource_uid="main", alerts="all", alert_labels=("team=platform",))
    golden("rules-grafana.yaml", as_yaml(document(None, options)))


@pytest.mark.parametrize("options", OPTIONS, ids=["cluster", "fleet"])
class TestFile:
    def test_file_has_only_documented_keys(self, options: RulesOptions) -> None:
        _File.model_validate(document(None, options))

    def test_sdk_understands_every_rule_and_query(self, options: RulesOptions) -> None:
        models: dict[str, Any] = {"A": prometheus.Dataquery, "B": expr.TypeMath}
        for rule in alerts(options):
            without_queries = {key: value for key, value in rule.items() if key != "data"}
            assert without_queries.items() <= known(alerting.Rule.from_json(without_queries)).items()
            for query in rule["data"]:
                model = query["model"]
                assert model.items() <= known(models[query["refId"]].from_json(model)).items()

    def test_every_alert_of_prometheus_is_there_with_its_expression_and_labels(self, options: RulesOptions) -> None:
        found = [
            (rule["title"], rule["data"][0]["model"]["expr"], rule["for"], rule["labels"]) for rule in alerts(options)
        ]
        assert found == [
            (rule["alert"], rule["expr"], rule.get("for", "0s"), rule["labels"]) for rule in of_prometheus(options)
        ]

    def test_condition_is_1_for_each_element_whatever_its_value(self, options: RulesOptions) -> None:
        for rule in alerts(options):
            (condition,) = (query for query in rule["data"] if query["refId"] == rule["condition"])
            assert (condition["datasourceUid"], condition["model"]["expression"]) == ("__expr__", "is_number($A)")

    def test_annotations_use_only_what_templates_of_grafana_have(self, options: RulesOptions) -> None:
        texts = [text for rule in alerts(options) for text in rule["annotations"].values()]
        actions = {action for text in texts for action in re.findall(r"{{(.*?)}}", text)}
        assert {re.sub(r"\$labels\.\w+", "$labels.x", action) for action in actions} <= {
            " $labels.x ",
            ' if eq $labels.x "service" ',
            " else ",
            " end ",
            " $values.A.Value ",
            *(f" {name} $values.A.Value " for name in ("humanize", "humanizeDuration", "humanizePercentage")),
        }

    def test_identities_are_unique(self, options: RulesOptions) -> None:
        found = [rule["uid"] for rule in alerts(options)]
        assert len(set(found)) == len(found)

    def test_intervals_are_multiples_of_those_of_the_scheduler(self, options: RulesOptions) -> None:
        seconds = {"10s": 10, "1m": 60, "2m": 120, "4m": 240}
        assert {group["interval"] for group in document(None, options)["groups"]} <= seconds.keys()


def test_sentence_without_the_worst_watch_still_reads() -> None:
    said = [text for rule in alerts(OPTIONS[0]) for text in rule["annotations"].values()]
    assert not any(re.search(r"the worst is|such as|most often|the slowest", text) for text in said)


def test_identities_last_while_objectives_change_and_differ_between_profiles(tmp_path: Any) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text(yaml.safe_dump({"objective": {"threshold": "2s"}}))
    profile = RulesOptions("grafana", job_selector='job="watchslo-node"')
    first, changed, other = (
        {rule["uid"] for group in document(file, options)["groups"] for rule in group["rules"]}
        for file, options in ((None, OPTIONS[0]), (path, OPTIONS[0]), (None, profile))
    )
    assert first == changed
    assert not first & other
