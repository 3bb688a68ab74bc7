"""The values that a configuration holds, such as durations, sizes and addresses: how to parse, check and print them.

Each parser raises ValueError with a message that says what to write instead.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_LONGEST_DURATION = 40  # characters; the pattern takes the square of the length
_UNIT_BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d{1,15})(Ki|Mi|Gi|)B?")
_RESOURCE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_SMALLEST_LINE, _LARGEST_LINE = 2**20, 2**30  # bytes; a single object may have 1.5 MiB
_SMALLEST_HEAD, _LARGEST_HEAD = 2**12, 2**20  # bytes; a browser with a long token needs a few thousand
_MAX_PORT = 65535
METRICS_PATH = "/v1/metrics"  # of OTLP over HTTP, after the URL of a collector
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PERCENT = 100.0
_FEWEST_PERCENT = 50.0  # numbers from here to 100 are taken for percentages; 1.5 is more likely a typing error
_SELECTOR_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?")
_SELECTOR_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SHARD_RANGE = re.compile(
    r"shardRange\(object\.metadata\.(uid|namespace), '0x([0-9a-f]{16})', '0x([0-9a-f]{16}|10{16})'\)"
)
_ORDINAL = re.compile(r"(?:.+-)?(\d{1,9})")


def parse_duration(text: str) -> float:
    """Return the seconds of `500ms`, `1s`, `1m30s` or `30d`."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"{text} has no unit; write for example {text}s")
    parts = _DURATION_PART.findall(text) if len(text) <= _LONGEST_DURATION else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text} is not a duration; write for example 500ms, 1s, 5m or 30d")
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    if seconds == 0:
        raise ValueError(f"{text} is not a positive duration; write for example 1s")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text for a duration in one unit: `500ms`, `1s`, `30d`."""
    unit = next((unit for unit in ("d", "h", "m", "s") if seconds % _UNIT_SECONDS[unit] == 0), "ms")
    return f"{seconds / _UNIT_SECONDS[unit]:g}{unit}"


def parse_size(text: str, smallest: int = _SMALLEST_LINE, largest: int = _LARGEST_LINE) -> int:
    """Return the bytes of `64Mi` or `16KiB`; the limits are inclusive, in bytes."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text} is not a size; write for example {_format_size(largest >> 4)}")
    size = int(match[1]) * _UNIT_BYTES[match[2]]
    if not smallest <= size <= largest:
        raise ValueError(f"{text} is out of range; write {_format_size(smallest)} to {_format_size(largest)}")
    return size


def parse_head_size(text: str) -> int:
    """Return the bytes of the largest request head that the server reads."""
    return parse_size(text, _SMALLEST_HEAD, _LARGEST_HEAD)


def _format_size(size: int) -> str:
    unit = max((unit for unit in _UNIT_BYTES if size % _UNIT_BYTES[unit] == 0), key=_UNIT_BYTES.__getitem__)
    return f"{size // _UNIT_BYTES[unit]}{unit}"


class Listen(NamedTuple):
    """An address to serve on: an empty host means every address, port 0 any free port."""

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """Return the host and port of `0.0.0.0:9477`, `[::1]:9477` or `:0`."""
    host, colon, port = text.rpartition(":")
    valid = port.isdecimal() and len(port) <= len(str(_MAX_PORT)) and int(port) <= _MAX_PORT
    if not colon or not valid or (":" in host) != host.startswith("["):
        raise ValueError(f"{text} is not an address to listen on; write host:port, for example 0.0.0.0:9477")
    return Listen(host.removeprefix("[").removesuffix("]"), int(port))


def parse_share(text: str) -> float:
    """Return a share between 0 and 1, both excluded; percentages are refused."""
    number = text.removesuffix("%")
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{text} is not a share; write a number below 1, for example 0.999")
    share = float(number)
    if text != number or _FEWEST_PERCENT <= share < _PERCENT:
        raise ValueError(f"{text} is a percentage; write {share / _PERCENT:.10g}")
    if share == 1:
        raise ValueError(f"{text} leaves no error budget; write a share below 1, for example 0.999")
    if not 0 < share < 1:
        raise ValueError(f"{text} is not a share; write a number between 0 and 1, for example 0.999")
    return share


def parse_ordinal(text: str) -> int:
    """Return the number at the end of a name, such as that of a StatefulSet's pod, or a plain number."""
    match = _ORDINAL.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text} does not end in a number; write a number from 0, or the name of a StatefulSet's pod: ${{POD_NAME}}"
        )
    return int(match[1])


def parse_resource(value: str) -> str:
    """Return the name of a resource, such as `pods` or `deployments.apps`."""
    if not _RESOURCE.fullmatch(value):
        near = value.lower()
        hint = f"did you mean {near}?" if _RESOURCE.fullmatch(near) else "write for example pods or deployments.apps"
        raise ValueError(f"{value} is not a resource: names are lower-case plurals; {hint}")
    return value


def parse_watchable(value: str) -> str:
    """Return the name of a resource, or `*` for all resources."""
    return value if value == "*" else parse_resource(value)


def parse_namespace(value: str) -> str:
    """Return the name of a namespace: an RFC 1123 label."""
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(f"{value} is not a namespace; remove the key to watch all namespaces")
    return value


def parse_selector_key(value: str) -> str:
    """Return the key of a label, or the path of a field."""
    if not _SELECTOR_KEY.fullmatch(value):
        raise ValueError(f"{value} is not the key of a label or field; write for example app or spec.nodeName")
    return value


def parse_selector_value(value: str) -> str:
    """Return a value of a label or field that needs no escapes in a selector."""
    if not _SELECTOR_VALUE.fullmatch(value):
        raise ValueError(f"{value} is not a value of a label or field; write letters, digits, and `-`, `_`, `.` within")
    return value


def parse_shard_selector(value: str) -> str:
    """Return a shard selector in the form in which apiservers repeat it."""
    ranges = [_SHARD_RANGE.fullmatch(part) for part in value.split(" || ")]
    if not all(found and int(found[2], 16) < int(found[3], 16) for found in ranges):
        raise ValueError(
            f"{value} is not a shard selector; write for example "
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
        )
    return value


def parse_apiservers(value: object) -> object:
    """Return a keyword or a list of URLs. Other values are refused here, because pydantic would report each form."""
    match value:
        case "service" | "each":
            return value
        case list():
            return _urls(value)
        case _:
            raise ValueError(f"{describe(value)} is not possible; write service, each, or a list of URLs")


def parse_reactions(value: object) -> object:
    """Return a keyword or a list of resources, with one error for all forms, as `parse_apiservers` does."""
    match value:
        case "auto" | "none":
            return value
        case list() | tuple():
            return tuple(_resource(name) for name in value)
        case _:
            raise ValueError(f"{describe(value)} is not possible; write auto, none, or a list of resources")


def _resource(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{describe(value)} is not a resource; write for example pods or deployments.apps")  # noqa: TRY004 - pydantic's own
    return parse_resource(value)


def parse_page(value: str) -> str:
    """Return the URL of a page that browsers open."""
    if _url_parts(value, "a page", "https://watchslo.example.com/").username is not None:
        raise ValueError("the URL has a user, which every reader of the page would see; remove the user")
    return value


def parse_collector(value: str) -> str:
    """Return the URL of a collector without the path of a signal, which is the same at all of them."""
    parts = _url_parts(value, "a collector", "http://collector:4318")
    if parts.username is not None:
        raise ValueError("the URL has a user; remove the user, and put credentials into a file for `headersFile`")
    if parts.path.rstrip("/").endswith(METRICS_PATH):
        raise ValueError(f"{value} ends in {METRICS_PATH}, which is added to it; write {value.rpartition('/v1/')[0]}")
    if parts.query or parts.fragment:
        raise ValueError(f"{value} contains more than a path; write {value.partition('?')[0].partition('#')[0]}")
    return value.rstrip("/")


def parse_client_name(value: str) -> str:
    """Return the name of a client, which is a label of metrics."""
    if not _SELECTOR_VALUE.fullmatch(value):
        raise ValueError(f"{value} is not a name; write letters, digits, and `-`, `_`, `.` within")
    return value


def parse_metrics_url(value: str) -> str:
    """Return the URL of a page of metrics."""
    parts = _url_parts(value, "a page of metrics", "https://10.0.0.7:10257/metrics")
    if parts.username is not None:
        raise ValueError("the URL has a user; remove the user, and write authorization: kubernetes to send a token")
    if not parts.path.strip("/"):
        raise ValueError(f"{value} has no path; write for example {value.rstrip('/')}/metrics")
    return value


def _url_parts(value: str, what: str, example: str) -> SplitResult:
    """Return the parts of a URL for HTTP or HTTPS."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isprintable():
        raise ValueError(f"{value} is not the URL of {what}; write for example {example}")
    return parts


def _urls(values: list[object]) -> list[str]:
    if not values:
        raise ValueError("empty; list URLs, or write service or each")
    urls = [_apiserver_url(value) for value in values]
    for url, count in Counter(urls).items():
        if count > 1:
            raise ValueError(f"{url} is listed {count} times; keep one of them")
    return urls


def _apiserver_url(value: object) -> str:
    """Return the scheme, host and port of a URL, so that one address has one form."""
    if not isinstance(value, str):
        shown = "nothing" if value is None else describe(value)
        raise ValueError(f"{shown} is not a URL; write for example https://10.0.0.7:6443")  # noqa: TRY004 - pydantic's own
    try:
        parts = urlsplit(value)
        port = _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"{value} has an invalid host or port; write for example https://10.0.0.7:6443") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not port:
        raise ValueError(f"{value} is not the URL of an apiserver; write for example https://10.0.0.7:6443")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"{parts.scheme}://{host}:{port}"
    if parts.username is not None:
        raise ValueError(f"{url} is written with a user; remove the user, and put credentials into a kubeconfig")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{value} contains more than an address; write {url}")
    return url


@dataclass(frozen=True, slots=True)
class Between:
    """Accepts durations from the shortest to the longest, both included."""

    shortest: str
    longest: str

    def __call__(self, seconds: float) -> float:
        if not parse_duration(self.shortest) <= seconds <= parse_duration(self.longest):
            raise ValueError(f"{format_duration(seconds)} is out of range; write {self.shortest} to {self.longest}")
        return seconds


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """Accepts multiples of a duration."""

    unit: str

    def __call__(self, seconds: float) -> float:
        if seconds % parse_duration(self.unit):
            raise ValueError(f"{format_duration(seconds)} is not a multiple of {self.unit}")
        return seconds


@dataclass(frozen=True, slots=True)
class FromText:
    """Parses text; other values, such as a misplaced mapping, pass unchanged to pydantic, which refuses them."""

    parse: Callable[[str], object]

    def __call__(self, value: object) -> object:
        return self.parse(value) if isinstance(value, str) else value


def between(shortest: str, longest: str) -> AfterValidator:
    """Return a validator that accepts durations from `shortest` to `longest`, both included."""
    return AfterValidator(Between(shortest, longest))


def from_text(parse: Callable[[str], object], written: object = str) -> BeforeValidator:
    """Return a validator that parses text and passes other values on to pydantic; `written` is the type in a file."""
    return BeforeValidator(FromText(parse), json_schema_input_type=written)


_DurationText = Annotated[str, Field(pattern=rf"^({_DURATION_PART.pattern})+$|\$\{{", examples=["500ms", "1m30s"])]

Duration = Annotated[float, from_text(parse_duration, _DurationText)]
Size = Annotated[int, from_text(parse_size, int | str)]
HeadSize = Annotated[int, from_text(parse_head_size, int | str)]
Share = Annotated[float, from_text(parse_share, float | str)]
Ordinal = Annotated[int, from_text(parse_ordinal, int | str)]
ResourceName = Annotated[str, AfterValidator(parse_resource)]
WatchableName = Annotated[str, AfterValidator(parse_watchable)]
Namespace = Annotated[str, AfterValidator(parse_namespace)]
SelectorKey = Annotated[str, AfterValidator(parse_selector_key)]
SelectorValue = Annotated[str, AfterValidator(parse_selector_value)]
ShardSelector = Annotated[str, AfterValidator(parse_shard_selector)]
CollectorUrl = Annotated[str, AfterValidator(parse_collector)]
ClientName = Annotated[str, AfterValidator(parse_client_name)]
MetricsUrl = Annotated[str, AfterValidator(parse_metrics_url)]
PageUrl = Annotated[str, AfterValidator(parse_page)]
Text = Annotated[str, Field(min_length=1)]


def describe(value: object) -> str:
    """Return the value as an error message names it: mappings and lists by their kind only."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)
