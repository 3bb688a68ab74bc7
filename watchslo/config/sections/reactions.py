"""The section `reactions`: whose controllers are timed, and how long each step may take."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Duration, parse_reactions


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

    short_for: ClassVar = "resources"

    resources: Annotated[Literal["auto", "none"] | tuple[str, ...], BeforeValidator(parse_reactions)] = "auto"
    thresholds: ReactionThresholdsConfig = ReactionThresholdsConfig()
