"""The queries of runbooks and dashboards, and the configuration of a Prometheus, in promtool."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support import names, written
from tests.support.promql import read
from tests.support.promtool import (
    Case,
    Rules,
    complaints_of_check,
    complaints_of_configuration,
    complaints_of_test,
    value,
)
from tools.dashboards.files import files
from tools.dashboards.queries import queries, variables

ROOT = Path(__file__).parents[2]


def of_runbooks() -> list[str]:
    pages = sorted((ROOT / "docs/runbooks").glob("*.md"))
    return [query for page in pages for query in written.queries_of_page(page.read_text())]


def as_rules(expressions: Iterable[str]) -> Rules:
    """Return queries as recording rules, so that promtool can check and evaluate them."""
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(expressions)]
    return {"groups": [{"name": "queries", "interval": "1m", "rules": recorded}]}


def series() -> Iterator[str]:
    """Yield series of two instances for each queried metric, with several values of every label."""
    for name in sorted({name for query in of_runbooks() for name, _ in read(query).selectors}):
        labels = names.known()[name].labels
        for number in range(max([8, *map(len, labels.values())])):
            label_values = {
                label: sorted(values)[number % len(values)] if values else f"{label}{number >> position & 1}"
                for position, (label, values) in enumerate(labels.items())
            }
            for instance in ("a", "b"):
                every = label_values | {"instance": instance, "job": "watchslo-and-apiserver", "container": "watchslo"}
                yield name + "{" + ",".join(f"{label}={json.dumps(value)}" for label, value in every.items()) + "}"


def test_promtool_evaluates_the_queries_of_runbooks(tmp_path: Path) -> None:
    """Vectors that do not match one to one fail only with samples."""
    assert complaints_of_check(tmp_path, as_rules(of_runbooks())) == ""
    samples = [{"series": name, "values": "0+7x30"} for name in sorted(set(series()))]
    case = Case(samples, [value(30, "vector(1)", 1)])
    assert complaints_of_test(tmp_path, as_rules(of_runbooks()), [("every metric", case)], every="15m") == ""


def test_promtool_accepts_the_queries_of_dashboards(tmp_path: Path) -> None:
    boards = [json.loads(text) for text in files().values()]
    found = [query for board in boards for _, query in (*queries(board), *variables(board))]
    assert complaints_of_check(tmp_path, as_rules(found), "--lint=none") == ""


def test_promtool_accepts_the_configuration_of_the_compose_file() -> None:
    assert complaints_of_configuration(ROOT / "deploy/compose/prometheus.yaml") == ""
