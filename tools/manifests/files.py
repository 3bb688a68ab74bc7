"""The generated files of `deploy/`, by their path in it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tools.manifests.values import readme
from watchslo import DOCUMENTATION
from watchslo.app import rbac, rules
from watchslo.config.loading import load
from watchslo.config.model import Config
from watchslo.rbac.permissions import required_permissions
from watchslo.rules.alert_selection import AlertSelection
from watchslo.rules.pack import plain, rule_file, rule_groups, rule_object
from watchslo.rules.rule import RuleGroup
from watchslo.rules.settings import RuleSettings

DEPLOY = Path(__file__).parents[2] / "deploy"
PROFILES = ("control-plane", "managed", "node", "sharded")
WITH_OWN_WATCHES = ("node",)  # the chart does not replace them
NAMESPACE = "watchslo"
POD_ENVIRONMENT = {"HOST_IP": "192.0.2.1", "NODE_NAME": "node", "POD_NAME": "watchslo-0"}
"""Environment variables of the pods; their values do not appear in the generated files."""


def config(profile: str) -> Config:
    """Return the configuration of a profile; raises ConfigError."""
    return load(DEPLOY / folder(profile) / "watchslo.yaml", POD_ENVIRONMENT)[0]


def folder(profile: str) -> Path:
    """Return the folder of a profile, within the chart: Helm cannot read files outside of the chart."""
    return Path("chart/profiles") / profile


def files() -> dict[Path, str]:
    """Return the text of each file."""
    return dict(_files())


def _files() -> Iterator[tuple[Path, str]]:
    yield (
        Path("chart/README.md"),
        readme((DEPLOY / "chart/values.yaml").read_text(), DOCUMENTATION.removesuffix("/docs")),
    )
    for profile in PROFILES:
        profile_config = config(profile)
        yield folder(profile) / "rights.yaml", _roles(profile_config)
        if profile not in WITH_OWN_WATCHES:
            yield folder(profile) / "rights-without-watches.yaml", _without_watches(profile_config)
        pages, warnings = _rules(profile_config, profile)
        yield folder(profile) / "rules.yaml", pages
        yield folder(profile) / "warnings/rules.yaml", warnings
    yield Path("mixin/rules.json"), json.dumps(plain(Config(), RuleSettings()), indent=1, ensure_ascii=False) + "\n"


def _roles(profile_config: Config) -> str:
    return rbac.manifests(profile_config, None, rbac.RbacOptions(NAMESPACE))[0]


def _without_watches(profile_config: Config) -> str:
    """Return the roles of all features but the watches, to which the chart adds the resources of its value `watch`."""
    return rbac.HEADER + rbac.roles_text(required_permissions(profile_config, ()), rbac.RbacOptions(NAMESPACE))


def _rules(profile_config: Config, profile: str) -> tuple[str, str]:
    """Return the rules of a profile with its essential alerts, and its other alerts.

    They select only its own instances: several profiles may be installed.
    """
    every = rule_groups(profile_config, RuleSettings(job_selector=f'job="watchslo-{profile}"'))
    others = (replace(group, rules=tuple(rule for rule in group.rules if rule.is_warning)) for group in every)
    return (
        _rule_object("watchslo", AlertSelection.ESSENTIAL.of(every)),
        _rule_object(f"watchslo-{profile}-warnings", (group for group in others if group.rules)),
    )


def _rule_object(name: str, groups: Iterable[RuleGroup]) -> str:
    document = rule_object(name, rule_file(groups), {})
    document["metadata"]["namespace"] = NAMESPACE
    return rules.HEADER + rules.as_yaml(document)
