"""All files in deploy that are written by code, by their path there."""

import json
from collections.abc import Iterator
from pathlib import Path

from tools.dashboards.files import files as dashboards
from watchslo.app import rights, rules
from watchslo.config import Config, load
from watchslo.rules.options import Options
from watchslo.rules.pack import prometheus_rule

DEPLOY = Path(__file__).parents[2] / "deploy"
PROFILES = ("control-plane", "managed", "node", "sharded")
NAMESPACE = "watchslo"

POD_ENVIRONMENT = {"HOST_IP": "192.0.2.1", "NODE_NAME": "node", "POD_NAME": "watchslo-0"}
"""What the pods have in theirs; the values do not matter to what is written."""


def config(profile: str) -> Config:
    """What a profile's pods are told; raises ConfigError."""
    return load(DEPLOY / folder(profile) / "watchslo.yaml", POD_ENVIRONMENT)[0]


def folder(profile: str) -> Path:
    """Where a profile's configuration is: in the chart, which can read nothing outside of itself."""
    return Path("chart/profiles") / profile


def files() -> dict[Path, str]:
    """The text of each."""
    return dict(_files())


def _files() -> Iterator[tuple[Path, str]]:
    for profile in PROFILES:
        told = config(profile)
        yield folder(profile) / "rights.yaml", rights.manifests(told, None, rights.Question(NAMESPACE))[0]
        yield folder(profile) / "rules.yaml", _rules(told, profile)
    for name, text in dashboards().items():
        yield Path("chart/dashboards") / name, json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def _rules(told: Config, profile: str) -> str:
    """Those of one profile look at its own instances: others may run beside them."""
    document = prometheus_rule(told, Options(job_selector=f'job="watchslo-{profile}"'), {})
    document["metadata"]["namespace"] = NAMESPACE
    return rules.HEADER + rules.as_yaml(document)
