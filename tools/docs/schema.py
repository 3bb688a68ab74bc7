"""The JSON Schema of the configuration, with which editors complete and check a file."""

import json
from collections.abc import Mapping
from typing import Any

from tools.docs.keys import in_camel_case
from watchslo.config.model import Config

NAMED = ("properties", "$defs")  # schemas by names, which are no keywords
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def page() -> str:
    """Return the schema as JSON."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(_written(schema), indent=2, ensure_ascii=False) + "\n"


def _written(schema: Any) -> Any:
    """Return a part of the schema without titles, and without defaults that the file would write in another form."""
    if isinstance(schema, list):
        return [_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {
        key: _named(value) if key in NAMED else _written(value) for key, value in schema.items() if key != "title"
    }
    if "default" in kept and not isinstance(kept["default"], TYPES.get(kept.get("type", ""), ())):
        del kept["default"]
    if "description" in kept:
        kept["description"] = in_camel_case(kept["description"])
    return kept


def _named(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _written(schema) for name, schema in schemas.items()}
