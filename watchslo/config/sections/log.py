"""The section `log`: its level and format."""

from typing import Literal

from watchslo.config.sections.section import ConfigSection


class LogConfig(ConfigSection):
    """The level and the format of the log."""

    format: Literal["json", "console"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"
