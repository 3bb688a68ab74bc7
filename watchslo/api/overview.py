"""`/api/v1/overview`: all instances of a cluster as one, as `watchslo view` serves it."""

from typing import Annotated

from watchslo.api.part import ApiPart, From, Time, one_of
from watchslo.timeline.verdict import Level


class OverviewVerdict(ApiPart, frozen=True, kw_only=True):
    """The verdict on the cluster: the worst of all instances, and never good if one of them cannot be asked."""

    level: Annotated[str, one_of(Level)]
    text: str


class FindingStatus(ApiPart, frozen=True, kw_only=True):
    """What only shows when instances are compared; while a `doubt` lasts, no verdict is good."""

    text: str
    doubt: bool


class InstanceRowStatus(ApiPart, frozen=True, kw_only=True):
    """What one instance says. `age` is that of its figures in seconds; null if it has never answered."""

    name: str
    address: str
    part: str | None
    level: Annotated[str, one_of(Level)]
    text: str
    figures: str
    answers: bool
    age: float | None
    version: str | None
    watches: int | None


class OverviewDocument(ApiPart, frozen=True, kw_only=True, tag_field="apiVersion", tag="v1"):
    """All instances as one. Fields may be added; none changes its meaning within `v1`."""

    at: Annotated[Time, From("at_wall")]
    cluster: str | None
    verdict: OverviewVerdict
    findings: tuple[FindingStatus, ...]
    instances: Annotated[tuple[InstanceRowStatus, ...], From("rows")]
