"""The section `limits`: what this daemon may cost."""

from pydantic import Field

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Size
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES


class LimitsConfig(ConfigSection):
    """Hard caps on the cost of this daemon. With 0 audits per second, stalled watches are not detected.

    With 0 probes per second, apiservers are not asked for their storage either.

    Requests that open a watch again, after it was open, count as `resumesPerSecond`, whatever apiserver they go to; all
    others count as `requestsPerSecond`, for each apiserver.
    """

    requests_per_second: float = Field(default=20.0, gt=0)
    resumes_per_second: float = Field(default=150.0, gt=0)
    audits_per_second: float = Field(default=2.0, ge=0)
    probes_per_second: float = Field(default=5.0, ge=0)
    watches: int = Field(default=500, ge=1)
    max_line: Size = DEFAULT_LIMIT_BYTES
