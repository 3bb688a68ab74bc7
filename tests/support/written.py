"""The places that name metrics: rules, dashboards and pages, with their queries and texts."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from watchslo.config.model import Config
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.pack import rule_file, rule_groups
from watchslo.rules.rollup import rollup_groups
from watchslo.rules.settings import RuleSettings
from watchslo.rules.timespans import Histograms

# --- rules -----------------------------------------------------------------------------------------------------------


def rules() -> list[dict[str, Any]]:
    """Return the default recording and alerting rules, those of a fleet, and those of native histograms that differ."""
    config, found = Config(), []
    for form in Histograms:
        settings = RuleSettings(cluster_label="cluster", histograms=form)
        every = (*rule_groups(config, settings), *rollup_groups(config, settings), *fleet_groups(config, settings))
        for group in rule_file(every)["groups"]:
            found += [rule for rule in group["rules"] if rule not in found]
    return found


# --- pages -----------------------------------------------------------------------------------------------------------

_PROMQL_BLOCK = re.compile(r"^ *```promql\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def queries_of_page(text: str) -> list[str]:
    """Return the expressions of a page: the paragraphs of its PromQL blocks."""
    blocks = _PROMQL_BLOCK.findall(text)
    paragraphs = (part for block in blocks for part in re.split(r"\n\s*\n", block))
    return [
        part.strip() for part in paragraphs if not all(not s or s[0] == "#" for s in map(str.strip, part.split("\n")))
    ]


def prose_of_page(text: str) -> str:
    """Return a page without its PromQL blocks, except for their comments."""
    return _PROMQL_BLOCK.sub(lambda block: "\n".join(re.findall(r"#.*", block[0])), text)


# --- dashboards ------------------------------------------------------------------------------------------------------

_LABEL_VALUES = re.compile(r"\s*label_values\((?:(?P<metric>.+),)?\s*(?P<label>\w+)\s*\)\s*")


def queries_of_dashboard(path: Path) -> list[str]:
    """Return the expressions of all panels and variables; `label_values(m, l)` becomes `count by (l) (m)`."""
    return list(_dashboard_queries(json.loads(path.read_text())))


def _dashboard_queries(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from _dashboard_queries(one)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if key in ("expr", "query", "definition") and isinstance(value, str):
            yield from _as_promql(value, part)
        else:
            yield from _dashboard_queries(value)


def _as_promql(text: str, part: Mapping[str, Any]) -> Iterator[str]:
    if match := _LABEL_VALUES.fullmatch(text):
        if match["metric"]:
            yield f"count by ({match['label']}) ({match['metric']})"
    elif text and part.get("type") not in ("datasource", "custom", "interval", "constant", "textbox"):
        yield text


def descriptions_of_dashboard(path: Path) -> list[str]:
    """Return the titles and descriptions of a dashboard and its panels."""
    return list(_descriptions(json.loads(path.read_text())))


def _descriptions(part: Any) -> Iterator[str]:
    for value in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
        yield from _descriptions(value)
    if isinstance(part, dict) and isinstance(part.get("description"), str):
        yield part["description"]
