"""Checks whether an Alertmanager has the inhibitions that belong to the alerts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import yaml

from watchslo.app.doctor.findings import DeploymentFinding, good, unchecked, warning
from watchslo.app.http_endpoint import HttpEndpoint
from watchslo.timeline.format import counted

SUBJECT = "inhibitions"
UNSEEN = "Whether an Alertmanager has the inhibitions is not visible from Prometheus; pass --alertmanager URL."
_Inhibition = tuple[frozenset[str], frozenset[str], frozenset[str]]


def inhibition_findings(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> Iterator[DeploymentFinding]:
    """Yield whether each of our entries of `inhibit_rules` is there."""
    known = {_normal(inhibition) for inhibition in theirs}
    missing = [inhibition for inhibition in ours if _normal(inhibition) not in known]
    if missing:
        yield warning(
            SUBJECT,
            f"Alertmanager lacks {len(missing)} of {counted(len(ours), 'inhibition')}: one fault sends several alerts.",
            "Add the output of `watchslo rules -o inhibitions` to its configuration.",
        )
    else:
        yield good(SUBJECT, f"Alertmanager has all {counted(len(ours), 'inhibition')}.")


def _normal(inhibition: Mapping[str, Any]) -> _Inhibition:
    """Return the matchers and labels without order and spaces."""
    source, target = (
        frozenset(str(matcher).replace(" ", "") for matcher in inhibition.get(key) or ())
        for key in ("source_matchers", "target_matchers")
    )
    return source, target, frozenset(map(str, inhibition.get("equal") or ()))


def inhibitions_in(status: bytes) -> list[Mapping[str, Any]] | None:
    """Return `inhibit_rules` of the status of an Alertmanager; None if it is not one."""
    try:
        configuration = yaml.safe_load(json.loads(status)["config"]["original"])
        found = configuration.get("inhibit_rules") or []
    except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else None


async def check_inhibitions(endpoint: HttpEndpoint, ours: Sequence[Mapping[str, Any]]) -> list[DeploymentFinding]:
    """Read the configuration of an Alertmanager."""
    code, body = await endpoint.get("/api/v2/status")
    theirs = inhibitions_in(body) if code == HTTPStatus.OK else None
    if theirs is None:
        return [unchecked(SUBJECT, f"{endpoint.place} does not answer as an Alertmanager (status {code}).")]
    return [*inhibition_findings(ours, theirs)]
