"""Reads the queries of a dashboard file and replaces Grafana's variables, for tests."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), \w+\)")
DEFAULTS = {"__rate_interval": "1m", "__range": "1h"}

Json = Mapping[str, Any]


def queries(dashboard: Json, values: Mapping[str, str] = DEFAULTS) -> list[tuple[str, str]]:
    """Return (panel title, query) for all queries, with all clusters, apiservers, watches and instances selected.

    `values` sets Grafana's own variables, such as `__rate_interval` (a Prometheus duration), or overrides a selection.

    Raises:
        KeyError: if a query uses an unknown variable.
    """
    known = all_values(dashboard) | dict(values)
    return [(panel["title"], fill(target["expr"], known)) for panel in panels(dashboard) for target in panel["targets"]]


def variables(dashboard: Json) -> list[tuple[str, str]]:
    """Return (name, selector) of each variable; the selector is of the series whose labels are offered."""
    known = all_values(dashboard)
    found = [
        (variable["name"], LABEL_VALUES.fullmatch(variable["definition"])) for variable in _query_variables(dashboard)
    ]
    return [(name, fill(match["selector"], known)) for name, match in found if match]


def panels(dashboard: Json) -> Iterator[dict[str, Any]]:
    """Yield the panels that have queries, in their order."""
    return (panel for panel in dashboard["panels"] if panel["type"] not in ("row", "text"))


def all_values(dashboard: Json) -> dict[str, str]:
    """Return the value of each variable while All is selected."""
    return {variable["name"]: variable["allValue"] for variable in _query_variables(dashboard)}


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `$name` and `${name}` in a text."""
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def _query_variables(dashboard: Json) -> Iterator[dict[str, Any]]:
    return (variable for variable in dashboard["templating"]["list"] if variable["type"] == "query")
