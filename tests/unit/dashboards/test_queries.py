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


def test_queries_of_all_panels_select_everything_by_default() -> None:
    assert queries(DASHBOARD) == [
        ("One", 'rate(a{cluster=~".*"}[1m])'),
        ("Two", 'b{watch=~".+"}'),
        ("Two", "c[1h]"),
    ]


def test_queries_use_the_given_values() -> None:
    chosen = {"watch": "pods", "__range": "5m", "__rate_interval": "4s"}
    assert queries(DASHBOARD, chosen) == [
        ("One", 'rate(a{cluster=~".*"}[4s])'),
        ("Two", 'b{watch=~"pods"}'),
        ("Two", "c[5m]"),
    ]


def test_variables_return_name_and_selector() -> None:
    assert variables(DASHBOARD) == [("cluster", "up"), ("watch", 'up{cluster=~".*"}')]


def test_fill_raises_for_an_unknown_variable() -> None:
    with pytest.raises(KeyError, match="nothing"):
        fill("a[$nothing]", {"__range": "1h"})
