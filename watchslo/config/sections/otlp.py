"""The section `otlp`: where metrics are pushed to."""

import os
from typing import Annotated, Literal

from pydantic import AfterValidator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import CollectorUrl, Duration, Text, between


class OtlpConfig(ConfigSection):
    """The collector to which the metrics are pushed by OTLP; without `endpoint`, as OpenTelemetry's variables say.

    `headers_file` has a header of each request in each line, for example with a token. `histograms` selects the buckets
    of latencies: the classic ones of `/metrics`, or as many as its native histograms have.
    """

    endpoint: CollectorUrl | None = None
    interval: Annotated[Duration, between("5s", "1h")] = 30.0
    headers_file: Annotated[Text, AfterValidator(os.path.expanduser)] | None = None
    histograms: Literal["explicit", "exponential"] = "explicit"
