"""The section `objective`: how late events may be."""

from typing import Annotated

from pydantic import AfterValidator, Field

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Duration, MultipleOf, Share, between


class EventsObjective(ConfigSection):
    """The target share of events within the threshold over a period; burn rates refer to it."""

    target: Share = 0.99
    period: Annotated[Duration, between("1h", "366d")] = 30 * 86400.0


class MinutesObjective(ConfigSection):
    """The target share of windows whose quantile is within the threshold.

    Windows with fewer than `min_events` are not judged. `window` is a multiple of 5 s, the length of a block of
    samples.
    """

    quantile: Share = 0.99
    window: Annotated[Duration, between("10s", "10m"), AfterValidator(MultipleOf("5s"))] = 60.0
    target: Share = 0.999
    min_events: int = Field(default=100, ge=1)


class ObjectiveConfig(ConfigSection):
    """How late events may be. A watch may override any part of the common objective."""

    threshold: Annotated[Duration, between("1ms", "60s")] = 1.0
    events: EventsObjective = EventsObjective()
    minutes: MinutesObjective = MinutesObjective()

    def overridden_by(self, other: "ObjectiveConfig") -> "ObjectiveConfig":
        """Return this objective with the values that are set explicitly in the other one."""
        return self.model_copy(
            update={
                **other.model_dump(include={"threshold"}, exclude_unset=True),
                "events": self.events.model_copy(update=other.events.model_dump(exclude_unset=True)),
                "minutes": self.minutes.model_copy(update=other.minutes.model_dump(exclude_unset=True)),
            }
        )
