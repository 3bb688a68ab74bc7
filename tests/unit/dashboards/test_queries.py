import pytest

from tools.dashboards.queries import fill, queries, variables

DASHBOARD = {
    "templating": {
        "list": [
            {"type": "datasource", "name": "datasource"},
            {"type": "query", "name": "cluster", "allValue": ".*", "definition": "label_values(up, cluster)"},
            {
                "type": "query",
                "name": "watch",
                "allValue": ".+",
                "definition": 'label_values(up{cluster=~"$cluster"}, watch)',
            },
        ]
    },
    "panels": [
        {"type": "row", "title": "Now"},
        {"type": "stat", "title": "One", "targets": [{"expr": 'rate(a{cluster=~"$cluster"}[$__rate_interval])'}]},
        {"type": "table", "title": "Two", "targets": [{"expr": 'b{watch=~"${watch}"}'}, {"expr": "c[$__range]"}]},
    ],
}


def test_queries_are_those_of_all_panels_for_everything() -> None:
    assert queries(DASHBOARD) == [
        ("One", 'rate(a{cluster=~".*"}[1m])'),
        ("Two", 'b{watch=~".+"}'),
        ("Two", "c[1h]"),
    ]


def test_a_choice_is_filled_in() -> None:
    chosen = {"watch": "pods", "__range": "5m", "__rate_interval": "4s"}
    assert queries(DASHBOARD, chosen) == [
        ("One", 'rate(a{cluster=~".*"}[4s])'),
        ("Two", 'b{watch=~"pods"}'),
        ("Two", "c[5m]"),
    ]


def test_variables_ask_for_series() -> None:
    assert variables(DASHBOARD) == [("cluster", "up"), ("watch", 'up{cluster=~".*"}')]


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        fill("a[$nothing]", {"__range": "1h"})
