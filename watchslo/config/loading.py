"""Load a YAML file into a `Config`. An error is one sentence that names the file, the line, the key and the remedy."""

import difflib
import hashlib
import ipaddress
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from watchslo.bounded import TooLongError, YamlLimitError, check_yaml, read_file
from watchslo.config.model import Config
from watchslo.config.sections.objective import MinutesObjective, ObjectiveConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.config.values import describe
from watchslo.errors import ConfigError

LONGEST_FILE_BYTES = 2**20  # as a ConfigMap; larger ones would take minutes
LONGEST_QUOTE = 100  # characters of a value in an error
Keys = tuple[int | str, ...]
_Section = TypeVar("_Section", bound=BaseModel)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OF_ANOTHER_FORM = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$([A-Za-z_][A-Za-z0-9_]*)")  # of manifests and shells
_NAME = re.compile(r"(alias|anchor|handle|tag) ('.*?'|\".*?\")")  # of an error of YAML; it may be part of a secret
_RESOLVED = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
_CONSTRUCTED = {
    "tag:yaml.org,2002:null",
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:map",
    None,
}


def _print_warning(sentence: str) -> None:
    """Print a sentence about an outdated key to stderr; a daemon logs it instead."""
    print(f"watchslo: warning: {sentence}", file=sys.stderr)  # noqa: T201 - the output of the command is on stdout


def load(
    path: Path | None, environ: Mapping[str, str] = os.environ, warn: Callable[[str], None] = _print_warning
) -> tuple[Config, str]:
    """Return the configuration in a file and the hash of its content; without a file, the defaults and "".

    `warn` is called with a sentence about an outdated key, which is accepted. Raises ConfigError.
    """
    if path is None:
        return Config(), ""
    content = _content(path)
    return _YamlDocument(path, content).config(environ, warn), _hashed(content)


def narrow(
    config: Config,
    resources: Iterable[str],
    threshold: str | None,
    window: float,
    namespace: str | None = None,
    *,
    named_by: str = "--resource",
) -> Config:
    """Return the configuration limited to these resources, with one threshold and one window in seconds for all.

    Without resources or without a threshold, those of the configuration stay. The resources are watched in `namespace`,
    if one is given. Raises ConfigError that names the option of the command line; `named_by` has the resources.
    """
    place = {} if namespace is None else {"namespace": namespace}
    _from_option("--namespace", WatchConfig, resource="pods", **place)
    names = dict.fromkeys(resources)
    if place and not names:
        raise ConfigError("--namespace: it is for resources that are named; name some")
    watches = tuple(_from_option(named_by, WatchConfig, resource=name, **place) for name in names)
    narrowed = config.model_copy(update={"watch": watches}) if watches else config
    given = {} if threshold is None else {"threshold": threshold}
    given_objective = _from_option("--threshold", ObjectiveConfig, **given)
    objective = given_objective.model_copy(update={"minutes": MinutesObjective(window=window)})
    update: dict[str, object] = {"objective": narrowed.objective.overridden_by(objective)}
    if "watch" in narrowed.model_fields_set:
        update["watch"] = tuple(
            watch.model_copy(update={"objective": watch.objective.overridden_by(objective)}) for watch in narrowed.watch
        )
    return narrowed.model_copy(update=update)


def hash_of(path: Path) -> str:
    """Return the hash of a file's present content, for 1% of the cost of loading it; raises ConfigError."""
    return _hashed(_content(path))


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes:
    try:
        return read_file(path, LONGEST_FILE_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; name a file that exists, or no file to use the defaults") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; name the file in it") from None
    except TooLongError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a configuration of watchslo") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path}: {reason}; make it readable for the user that runs watchslo") from None


class _Loader(yaml.SafeLoader):
    """Keeps scalars except null as text: the model knows their types, and `on` stays a key."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - declared so by PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _RESOLVED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 - the same; without explicit tags such as !!int, whose constructors may raise anything
        tag: construct for tag, construct in yaml.SafeLoader.yaml_constructors.items() if tag in _CONSTRUCTED
    }


class _YamlDocument:
    """A YAML file that knows the line of each key."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        try:
            check_yaml(content)
            loader = _Loader(content)
            self._root = loader.get_single_node()
            self._data = None if self._root is None else loader.construct_document(self._root)
        except YamlLimitError as error:
            raise ConfigError(f"{path}: {error}; write it as the documentation shows") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f":{mark.line + 1}" if mark else ""
            problem = _NAME.sub(r"\1", ", ".join(filter(None, (error.context, error.problem))))
            raise ConfigError(f"{path}{line}: not YAML: {problem}; check indentation and quotes") from None
        except yaml.reader.ReaderError:
            raise ConfigError(f"{path}: not YAML: it is not text; save it as UTF-8") from None

    def config(self, environ: Mapping[str, str], warn: Callable[[str], None]) -> Config:
        if self._data is None:
            raise ConfigError(f"{self._path}: empty; write at least one key, or name no file to use the defaults")
        if not isinstance(self._data, dict):
            kind = "a list" if isinstance(self._data, list) else "a single value"  # it may be a token: show nothing
            raise ConfigError(f"{self._path}: {kind} is not a mapping; write keys, such as paused: false")
        for keys in _duplicate_keys(self._root):
            raise self._error(keys, "written twice; keep one of them")
        try:
            return Config.model_validate(self._with_mode(self._substituted(self._data, (), environ), warn))
        except ValidationError as error:
            # A misspelt key gives two errors, an unknown key and a missing one: the first helps more.
            first = min(error.errors(), key=lambda details: (self._line(details["loc"]), details["type"] == "missing"))
            raise self._error(first["loc"], _message(first)) from None

    def _with_mode(self, keys: dict[str, Any], warn: Callable[[str], None]) -> dict[str, Any]:
        """Return the keys with `mode: node` in place of `metrics: proven`, which 0.1.0 called it."""
        if keys.get("metrics") != "proven" or keys.get("mode", "node") != "node":
            return keys
        warn(f"{self._path}:{self._line(('metrics',))}: metrics: proven is outdated; write mode: node instead")
        return {key: value for key, value in keys.items() if key != "metrics"} | {"mode": "node"}

    def _substituted(self, value: Any, keys: Keys, environ: Mapping[str, str]) -> Any:
        match value:
            case dict():
                return {key: self._substituted(item, (*keys, key), environ) for key, item in value.items()}
            case list():
                return [self._substituted(item, (*keys, place), environ) for place, item in enumerate(value)]
            case str():
                if other := _OF_ANOTHER_FORM.search(value):
                    # As it is, it would select nothing, and a watch without events looks idle.
                    name = other[1] or other[2]
                    raise self._error(keys, f"{other[0]} is not replaced here; write ${{{name}}}")
                for name in _VARIABLE.findall(value):
                    if not environ.get(name):
                        # An empty value is refused too: `spec.nodeName=` would silently mean all unscheduled pods.
                        raise self._error(keys, f"${{{name}}} is not in the environment; set {name}, or write a value")
                return _VARIABLE.sub(lambda match: _inserted(match, environ[match[1]]), value)
            case _:
                return value

    def _error(self, keys: Keys, message: str) -> ConfigError:
        if not keys:
            return ConfigError(f"{self._path}: {message}")
        return ConfigError(f"{self._path}:{self._line(keys)}: {_dotted(keys)}: {message}")

    def _line(self, keys: Keys) -> int:
        """Return the line of the innermost of these keys that is in the file."""
        node, line = self._root, 0
        for key in keys:
            found: tuple[yaml.Node, yaml.Node] | None = None
            match node:
                case yaml.MappingNode(value=pairs):
                    found = next(((name, item) for name, item in pairs if name.value == str(key)), None)
                case yaml.SequenceNode(value=items) if isinstance(key, int):
                    found = items[key], items[key]
            if found is None:
                break
            place, node = found
            line = place.start_mark.line
        return line + 1


def _inserted(place: re.Match[str], value: str) -> str:
    """Return a variable's value as it must be written at its place: in a URL, IPv6 addresses have brackets."""
    if not place.string.endswith("//", 0, place.start()):
        return value
    try:
        return f"[{ipaddress.IPv6Address(value)}]"
    except ValueError:
        return value


_EXAMPLES = {  # for the keys without a default
    "resource": "resource: pods",
    "certFile": "certFile: /tls/tls.crt",
    "keyFile": "keyFile: /tls/tls.key",
    "by": "by: namespace",
    "name": "name: kube-scheduler",
    "url": "url: https://10.0.0.7:10259/metrics",
    "index": "index: ${POD_NAME}",
    "count": "count: 3",
}
_SENTENCES = {  # by the error type of pydantic
    "value_error": "{error}",
    "no_value": "has no value; write one, or remove the key",
    "missing": "missing; write for example {example}",
    "literal_error": "{shown} is not possible; write {expected}",
    "float_parsing": "{shown} is not a number; write for example 10",
    "int_parsing": "{shown} is not a number; write for example 100",
    "greater_than": "{shown} is too small; write more than {gt:g}",
    "greater_than_equal": "{shown} is too small; write at least {ge:g}",
    "less_than_equal": "{shown} is too large; write at most {le:g}",
    "model_type": "{shown} is not a mapping; write its keys below it, indented",
    "tuple_type": "{shown} is not a list; begin each entry with `- `",
    "too_long": "{actual_length} entries are too many; write at most {max_length}",
    "string_type": "{shown} is not a single value; write one value",
    "string_too_short": "empty; write a value, or remove the key",
    "bool_parsing": "{shown} is not possible; write true or false",
}


def _duplicate_keys(node: yaml.Node | None, keys: Keys = ()) -> Iterator[Keys]:
    """Yield the paths of keys that are twice in one mapping, which YAML forbids but its parser accepts."""
    match node:
        case yaml.MappingNode(value=pairs):
            names = Counter(name.value for name, _ in pairs if isinstance(name, yaml.ScalarNode))
            yield from ((*keys, name) for name, count in names.items() if count > 1)
            children = [(name.value, item) for name, item in pairs]
        case yaml.SequenceNode(value=items):
            children = list(enumerate(items))
        case _:
            children = []
    for key, child in children:
        yield from _duplicate_keys(child, (*keys, key))


def _from_option(option: str, section: type[_Section], **values: str) -> _Section:
    """Return a section with the value of a command-line option; raises ConfigError."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{option}: {_message(error.errors()[0])}") from None


def _dotted(keys: Keys) -> str:
    """Return a path of keys as text: `watch[1].fieldSelector`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def _message(details: ErrorDetails) -> str:
    """Return what is wrong, and the remedy, for one of pydantic's errors."""
    if details["type"] in ("extra_forbidden", "invalid_key"):
        return f"unknown key; {_nearest_key(details['loc'])}"
    kind = "no_value" if details["input"] is None else details["type"]
    context = {
        "reason": details["msg"].lower().removeprefix("input "),
        "example": _EXAMPLES.get(str(details["loc"][-1]) if details["loc"] else ""),
        **details.get("ctx", {}),
    }
    given = details["input"]
    sentence = _SENTENCES.get(kind, "{shown} is not possible: it {reason}").format(shown=describe(given), **context)
    is_long = isinstance(given, str) and len(given) > LONGEST_QUOTE
    return sentence.replace(given, f"{given[:LONGEST_QUOTE]}…") if is_long else sentence


def _nearest_key(keys: Keys) -> str:
    """Return the remedy for an unknown key: the most similar known key, or all known keys of its section."""
    section: type[BaseModel] = Config
    for key in keys[:-1]:
        section = section if isinstance(key, int) else _section_of(section, str(key))
    known = [field.alias or name for name, field in section.model_fields.items()]
    near = difflib.get_close_matches(str(keys[-1]).lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"the known keys are {', '.join(known)}"


def _section_of(parent: type[BaseModel], key: str) -> type[BaseModel]:
    annotation = next(field.annotation for name, field in parent.model_fields.items() if key in (name, field.alias))
    candidates = (annotation, *get_args(annotation))
    return next(kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel))
