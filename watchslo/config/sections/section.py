"""What all sections have in common."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class ConfigSection(BaseModel):
    """A section of the configuration: keys in camelCase, none that is unknown, values that never change.

    `short_for` is the key that a text or a list stands for, if one is written instead of the section.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, allow_inf_nan=False)
    short_for: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return {cls.short_for: value} if cls.short_for and isinstance(value, str | list | tuple) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema of the section, and of its short form."""
        section = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [section, section["properties"][cls.short_for]]} if cls.short_for else section
