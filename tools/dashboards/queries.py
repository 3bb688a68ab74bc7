"""What a dashboard's file asks, with Grafana's variables replaced: to prove that it is answered, and to draw it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), \w+\)")
DEFAULTS = {"__rate_interval": "1m", "__range": "1h"}

Json = Mapping[str, Any]


def queries(dashboard: Json, values: Mapping[str, str] = DEFAULTS) -> list[tuple[str, str]]:
    """Every panel's title with each of its queries, for all clusters, apiservers, watches and instances.

    `values` are those of Grafana's own variables, such as `__rate_interval` (a Prometheus duration), or of a choice.

    Raises:
        KeyError: for a variable that the dashboard does not have.
    """
    known = choices(dashboard) | dict(values)
    return [(panel["title"], fill(target["expr"], known)) for panel in panels(dashboard) for target in panel["targets"]]


def variables(dashboard: Json) -> list[tuple[str, str]]:
    """Every variable's name with the series that it takes its choices from."""
    known = choices(dashboard)
    found = [(variable["name"], LABEL_VALUES.fullmatch(variable["definition"])) for variable in _asked_for(dashboard)]
    return [(name, fill(match["selector"], known)) for name, match in found if match]


def panels(dashboard: Json) -> Iterator[dict[str, Any]]:
    """All that ask something, in their order."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def choices(dashboard: Json) -> dict[str, str]:
    """What stands for each variable while nothing is chosen."""
    return {variable["name"]: variable["allValue"] for variable in _asked_for(dashboard)}


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with `$name` and `${name}` replaced."""
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def _asked_for(dashboard: Json) -> Iterator[dict[str, Any]]:
    return (variable for variable in dashboard["templating"]["list"] if variable["type"] == "query")
