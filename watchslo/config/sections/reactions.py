"""The section `reactions`: whose controllers are timed, and how long each step may take."""

from typing import Any, Literal

from pydantic import model_validator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Duration, ResourceName


class ReactionThresholdsConfig(ConfigSection):
    """How long each step may take; a step without a threshold is timed, but not judged.

    By default, these are the steps that wait for an application or its images.
    """

    scheduled: Duration | None = 5.0
    started: Duration | None = 5.0
    prepared: Duration | None = None
    ready: Duration | None = None
    deleted: Duration | None = None
    routed: Duration | None = 5.0
    observed: Duration | None = 10.0

    def of(self, step: str) -> float | None:
        """Return the threshold of a step, in seconds, or None if the step is not judged."""
        threshold: float | None = getattr(self, step)
        return threshold


class ReactionsConfig(ConfigSection):
    """`resources` names the resources of `watch` whose controllers are timed.

    `auto` means workloads, custom resources, and pods if they are the reference. `reactions: VALUE` is short for
    `reactions: {resources: VALUE}`.
    """

    resources: Literal["auto", "none"] | tuple[ResourceName, ...] = "auto"
    thresholds: ReactionThresholdsConfig = ReactionThresholdsConfig()

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        """Accept the resources alone."""
        return {"resources": value} if isinstance(value, str | list | tuple) else value
