"""What all sections have in common."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ConfigSection(BaseModel):
    """A section of the configuration: keys in camelCase, none that is unknown, values that never change."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, allow_inf_nan=False)
