"""The reference of the configuration: each key with its valid values and its default."""

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from watchslo.config.model import Config
from watchslo.config.values import Between, FromText, Listen, format_duration

INTRODUCTION = """\
# All keys of the configuration

Generated from the code by `make docs`. [configuration.md](../configuration.md) explains them with an example;
`watchslo validate FILE` checks a file.

Keys with nested keys have their own section. A key without a default is not set.
"""
KINDS = {  # by the name of the parsing function
    "duration": "a duration",
    "size": "a size",
    "share": "a share below 1",
    "listen": "`host:port`",
    "apiservers": "`service` \\| `each` \\| a list of URLs",
    "reactions": "`auto` \\| `none` \\| a list of resources",
    "resource": "a resource, as kubectl takes it",
    "watchable": 'a resource, as kubectl takes it, or `"*"`',
    "namespace": "a namespace",
    "selector_key": "the key of a label, or the path of a field",
    "selector_value": "a value of the label or field",
    "page": "the URL of a page",
    "shard_selector": "`shardRange(…)`, as in KEP-5866",
}
EXAMPLES = {"a duration": ", such as `1m30s`", "a size": ", such as `64Mi`", "a share below 1": ", such as `0.999`"}
TYPE_NAMES = {bool: "`true` \\| `false`", int: "a whole number", float: "a number", str: "a text"}
UNIT_BYTES = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "": 1}


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([INTRODUCTION, *(_section(section, path) for section, path in PATHS.items())])


def _paths() -> dict[type[BaseModel], str]:
    """Return the path of each section class; outer sections come before nested ones."""
    paths: dict[type[BaseModel], str] = {Config: ""}
    waiting: list[type[BaseModel]] = [Config]
    for section in waiting:
        for name, field in section.model_fields.items():
            inner = _section_in(field.annotation)
            if inner and inner not in paths:
                many = "[]" if get_origin(field.annotation) is tuple else ""
                paths[inner] = f"{paths[section]}.{_key(name, field)}{many}".removeprefix(".")
                waiting.append(inner)
    return dict(sorted(paths.items(), key=lambda item: item[1].split(".")[0] != item[1]))


def _section(section: type[BaseModel], path: str) -> str:
    title = f"`{path}`" if path else "Top level"
    return f"## {title}\n\n{in_camel_case(section.__doc__ or '')}\n\n{_table(section)}"


def _table(section: type[BaseModel]) -> str:
    rows = [("Key", "Value", "Default"), ("---", "---", "---")]
    rows += [(f"`{_key(name, field)}`", _value(field), _default(field)) for name, field in section.model_fields.items()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or to_camel(name)


def in_camel_case(docstring: str) -> str:
    """Return the paragraphs of a docstring, with keys in the camel case of the file."""
    paragraphs = (" ".join(part.split()) for part in docstring.split("\n\n"))
    return re.sub(r"`(\w+)`", lambda match: f"`{to_camel(match[1])}`", "\n\n".join(paragraphs))


# Values


def _value(field: FieldInfo) -> str:
    inner = _section_in(field.annotation)
    if inner:
        anchor = re.sub(r"[^a-z]", "", PATHS[inner].lower())
        return f"a list of [mappings](#{anchor})" if get_origin(field.annotation) is tuple else f"[keys](#{anchor})"
    return _words(field.annotation, tuple(field.metadata))


def _words(annotation: Any, metadata: tuple[Any, ...]) -> str:
    annotation, metadata = _bare(annotation, metadata)
    parsed = _parsed(metadata)
    word = next((words for kind, words in KINDS.items() if kind in parsed), None)
    if word is None and get_origin(annotation) is Literal:
        word = " \\| ".join(f"`{choice}`" for choice in get_args(annotation))
    if word is None and get_origin(annotation) is tuple:
        return f"a list: {_words(get_args(annotation)[0], ())}"
    limits = list(_limits(metadata))
    example = "" if limits else EXAMPLES.get(word or "", "")
    return ", ".join([f"{word or TYPE_NAMES.get(annotation, 'a text')}{example}", *limits])


def _bare(annotation: Any, metadata: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Remove `Annotated` and `| None` from a type; returns the type and the collected metadata."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _bare(inner, (*metadata, *more))
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        if len(kinds) == 1:
            return _bare(kinds[0], metadata)
    return annotation, metadata


def _parsed(metadata: tuple[Any, ...]) -> str:
    """Return the names of the functions that parse or validate a value."""
    names = []
    for constraint in metadata:
        if isinstance(constraint, BeforeValidator | AfterValidator):
            function: Any = constraint.func.parse if isinstance(constraint.func, FromText) else constraint.func
            names.append(getattr(function, "__name__", ""))
    return " ".join(names)


def _limits(metadata: tuple[Any, ...]) -> Iterator[str]:
    for constraint in metadata:
        match constraint:
            case AfterValidator(func=Between(shortest=shortest, longest=longest)):
                yield f"`{shortest}` to `{longest}`"
            case Ge(ge=limit):
                yield f"at least {limit}"
            case Gt(gt=limit):
                yield f"more than {limit}"
            case Le(le=limit):
                yield f"at most {limit}"
            case Lt(lt=limit):
                yield f"less than {limit}"
            case MinLen():
                yield "not empty"


# Defaults


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if value is None or isinstance(value, BaseModel):
        return ""
    if isinstance(value, tuple) and not isinstance(value, Listen):
        return "the built-in resources" if value else ""
    return f"`{_formatted(value, _parsed(_bare(field.annotation, tuple(field.metadata))[1]))}`"


def _formatted(value: Any, parsed: str) -> str:
    """Return a value as written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Listen):
        return f"{value.host}:{value.port}"
    if "duration" in parsed:
        return format_duration(value) if value else "0s"
    if "size" in parsed:
        unit = next(unit for unit, size in UNIT_BYTES.items() if value % size == 0)
        return f"{value // UNIT_BYTES[unit]}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section class of a type, which may be optional or a list; None for other types."""
    candidates = (annotation, *get_args(annotation))
    return next((kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


PATHS = _paths()
