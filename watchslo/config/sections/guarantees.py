"""The section `guarantees`: how the guarantees of watches are verified."""

from typing import Literal

from watchslo.config.sections.section import ConfigSection


class GuaranteesConfig(ConfigSection):
    """How the guarantees of watches are verified.

    `stream` looks at each watch alone. `compare` also compares what the same watches at several apiservers delivered;
    of a single apiserver, it reads busy watches again at witnesses now and then. `full` also reads all events of busy
    watches a second time, to compare them with those of the watch.
    """

    level: Literal["stream", "compare", "full"] = "compare"

    @property
    def compares(self) -> bool:
        """Whether the watches of several apiservers are compared."""
        return self.level != "stream"

    @property
    def replays(self) -> bool:
        """Whether all events are read a second time."""
        return self.level == "full"
