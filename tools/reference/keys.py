"""The reference of the configuration: every key, what may stand there, and what holds without it."""

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from watchslo.config import Between, Config, FromText, Listen, format_duration

INTRODUCTION = """\
# All keys of the configuration

Generated from the code by `make docs`. [configuration.md](../configuration.md) explains them with an example;
`watchslo validate FILE` judges a file.

Keys that hold other keys have a section of their own. A default of *none* means that nothing is set.
"""
KINDS = {  # by what parses them
    "duration": "a duration",
    "size": "a size",
    "share": "a share below 1",
    "listen": "`host:port`",
    "apiservers": "`service` \\| `each` \\| a list of URLs",
    "resource": "a resource, as kubectl takes it",
    "watchable": 'a resource, as kubectl takes it, or `"*"`',
    "namespace": "a namespace",
}
EXAMPLES = {"a duration": ", such as `1m30s`", "a size": ", such as `64Mi`", "a share below 1": ", such as `0.999`"}
WORDS = {bool: "`true` \\| `false`", int: "a whole number", float: "a number", str: "a text"}
UNIT_BYTES = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "": 1}


def page() -> str:
    """The page, in Markdown."""
    return "\n".join([INTRODUCTION, *(_section(section, path) for section, path in PATHS.items())])


def _paths() -> dict[type[BaseModel], str]:
    """Each kind of mapping once, by where it stands first; the outer ones before those in them."""
    paths: dict[type[BaseModel], str] = {Config: ""}
    waiting: list[type[BaseModel]] = [Config]
    for section in waiting:
        for name, field in section.model_fields.items():
            inner = _section_in(field.annotation)
            if inner and inner not in paths:
                many = "[]" if get_origin(field.annotation) is tuple else ""
                paths[inner] = f"{paths[section]}.{_key(name, field)}{many}".removeprefix(".")
                waiting.append(inner)
    return dict(sorted(paths.items(), key=lambda one: one[1].split(".")[0] != one[1]))


def _section(section: type[BaseModel], path: str) -> str:
    title = f"`{path}`" if path else "At the top"
    return f"## {title}\n\n{_camel(section.__doc__ or '')}\n\n{_table(section)}"


def _table(section: type[BaseModel]) -> str:
    rows = [("Key", "Value", "Default"), ("---", "---", "---")]
    rows += [(f"`{_key(name, field)}`", _value(field), _default(field)) for name, field in section.model_fields.items()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or to_camel(name)


def _camel(docstring: str) -> str:
    """As paragraphs, with the keys as a file has them."""
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
    return ", ".join([f"{word or WORDS.get(annotation, 'a text')}{example}", *limits])


def _bare(annotation: Any, metadata: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Without `Annotated` and `| None`, and with what these wrap."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _bare(inner, (*metadata, *more))
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        if len(kinds) == 1:
            return _bare(kinds[0], metadata)
    return annotation, metadata


def _parsed(metadata: tuple[Any, ...]) -> str:
    """The name of what parses or judges a text."""
    names = []
    for one in metadata:
        if isinstance(one, BeforeValidator | AfterValidator):
            function: Any = one.func.parse if isinstance(one.func, FromText) else one.func
            names.append(getattr(function, "__name__", ""))
    return " ".join(names)


def _limits(metadata: tuple[Any, ...]) -> Iterator[str]:
    for one in metadata:
        match one:
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
        return "it is needed"
    if isinstance(value, BaseModel):
        return "theirs"
    if isinstance(value, tuple) and not isinstance(value, Listen):
        return "the built-in resources" if value else "none"
    if value is None:
        return "none"
    return f"`{_written(value, _parsed(_bare(field.annotation, tuple(field.metadata))[1]))}`"


def _written(value: Any, parsed: str) -> str:
    """As a file has it."""
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
    """The mapping that is meant, be it in a list, or optional."""
    candidates = (annotation, *get_args(annotation))
    return next((kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


PATHS = _paths()
