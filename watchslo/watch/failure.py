"""Why a list or a watch ended, and what to do next: the only place that interprets HTTP status codes.

`FAILURE_RULES` is the whole policy. The functions below it only find the reason: from an HTTP status, from an ERROR
event of an open watch, or from the caller that saw the connection fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus

from watchslo.watch.decode import ApiStatus

LONGEST_RETRY_AFTER_SECONDS = 300.0  # a mistaken proxy must not stop a watch for a day


class CloseClass(StrEnum):
    """Which party ended the request; a label of the metrics."""

    DEADLINE = "deadline"
    SERVER = "server"
    EXPIRED = "expired"
    NETWORK = "network"
    CREDENTIALS = "credentials"
    OWN = "own"


class Action(StrEnum):
    """What to do next. Only a healthy watch is resumed at once; every other action waits first."""

    RETRY = "retry"  # repeat the request without limit: the failure is not caused by what was requested
    RESUME = "resume"  # watch from the newest revision; after several failures at one revision, list again
    START_OVER = "start_over"  # the revision is not usable: list again
    WAIT = "wait"  # the resource cannot be watched now: repeat the request from time to time
    REAUTHENTICATE = "reauthenticate"  # reload the credentials, then as RETRY
    FALL_BACK = "fall_back"  # request the next simpler representation, then as RETRY
    STOP = "stop"  # this process ended the request itself


class Phase(StrEnum):
    """What was in progress: a list, the opening of a watch, or an open watch."""

    LIST = "list"
    OPEN = "open"
    STREAM = "stream"

    @property
    def verb(self) -> str:
        """The RBAC verb that the request needs."""
        return "list" if self is Phase.LIST else "watch"


class Reason(StrEnum):
    """Every way in which a list or a watch ends; a label of the metrics."""

    DEADLINE = "deadline"

    FORCED = "forced"
    APISERVER_SHUTDOWN = "apiserver_shutdown"
    SLOW_CONSUMER = "slow_consumer"
    CRD_CHANGED = "crd_changed"
    CRD_DELETED = "crd_deleted"
    EMPTY_CLOSE = "empty_close"
    THROTTLED = "throttled"
    INITIALIZING = "initializing"
    CONVERSION = "conversion"
    SERVER_ERROR = "server_error"
    FUTURE_REVISION = "future_revision"
    BAD_REQUEST = "bad_request"
    INVALID = "invalid"
    NO_STREAMED_LISTS = "no_streamed_lists"
    NOT_ACCEPTABLE = "not_acceptable"
    NOT_FOUND = "not_found"
    NOT_WATCHABLE = "not_watchable"
    SELECTOR_UNCONFIRMED = "selector_unconfirmed"
    UNEXPECTED_STATUS = "unexpected_status"
    GARBAGE = "garbage"
    OVERSIZE = "oversize"
    UNPARSABLE = "unparsable"
    TIME_TRAVEL = "time_travel"

    EXPIRED = "expired"

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    EARLY_EOF = "early_eof"
    STALLED = "stalled"

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    CREDENTIALS = "credentials"
    ROTATED = "rotated"

    RELOAD = "reload"
    PAUSED = "paused"
    SHUTDOWN = "shutdown"
    SUSPENDED = "suspended"
    DOMAIN_RESET = "domain_reset"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one request ended. `message` is a sentence that names no object; `retry_after` is in seconds.

    `continue_token` is the one that an apiserver sends with the 410 for an expired token. It continues the list at the
    present state.
    """

    reason: Reason
    closed: CloseClass
    action: Action
    message: str
    retry_after: float | None = None
    status: int | None = None
    continue_token: str | None = None

    @property
    def concerns_clients(self) -> bool:
        """True if other clients with the right to watch the resource would fail as well."""
        return self.action not in _OF_THIS_CLIENT and self.reason not in _OF_THIS_REQUEST


_OF_THIS_CLIENT = (Action.WAIT, Action.REAUTHENTICATE, Action.FALL_BACK, Action.STOP)
_OF_THIS_REQUEST = (Reason.BAD_REQUEST, Reason.INVALID, Reason.NO_STREAMED_LISTS, Reason.OVERSIZE)

FAILURE_RULES: Mapping[Reason, tuple[CloseClass, Action, str]] = {
    Reason.DEADLINE: (CloseClass.DEADLINE, Action.RESUME, "The watch ran its full time."),
    # by the apiserver
    Reason.FORCED: (CloseClass.SERVER, Action.RESUME, "The apiserver closed the watch before its timeout."),
    Reason.APISERVER_SHUTDOWN: (
        CloseClass.SERVER,
        Action.RESUME,
        "The apiserver closed all its watches at once. It probably shut down.",
    ),
    Reason.SLOW_CONSUMER: (
        CloseClass.SERVER,
        Action.RESUME,
        "The apiserver closed the watch while it was behind. The client was probably too slow.",
    ),
    Reason.CRD_CHANGED: (
        CloseClass.SERVER,
        Action.RESUME,
        "The apiserver closed the watch, then answered 429 or 410. The CRD probably changed.",
    ),
    Reason.CRD_DELETED: (
        CloseClass.SERVER,
        Action.RESUME,
        "The apiserver closed the watch, then answered 404. The CRD was probably deleted.",
    ),
    Reason.EMPTY_CLOSE: (CloseClass.SERVER, Action.RESUME, "The apiserver repeatedly closes the watch without events."),
    Reason.THROTTLED: (CloseClass.SERVER, Action.RETRY, "The apiserver is too busy."),
    Reason.INITIALIZING: (CloseClass.SERVER, Action.RETRY, "The apiserver's watch cache of the resource is not ready."),
    Reason.CONVERSION: (
        CloseClass.SERVER,
        Action.RETRY,
        "The conversion webhook of the CRD fails, so the apiserver cannot read the objects; repair the webhook.",
    ),
    Reason.SERVER_ERROR: (CloseClass.SERVER, Action.RESUME, "The apiserver failed to {verb} the resource."),
    Reason.FUTURE_REVISION: (CloseClass.SERVER, Action.RETRY, "The apiserver has not reached this revision yet."),
    Reason.BAD_REQUEST: (CloseClass.SERVER, Action.RESUME, "The apiserver does not understand the request."),
    Reason.INVALID: (CloseClass.SERVER, Action.RESUME, "The apiserver rejects the parameters of the request."),
    Reason.NO_STREAMED_LISTS: (CloseClass.SERVER, Action.RETRY, "The apiserver does not stream lists."),
    Reason.NOT_ACCEPTABLE: (CloseClass.SERVER, Action.FALL_BACK, "The apiserver does not know the representation."),
    Reason.NOT_FOUND: (CloseClass.SERVER, Action.WAIT, "The apiserver does not serve the resource."),
    Reason.NOT_WATCHABLE: (CloseClass.SERVER, Action.WAIT, "The resource does not support `{verb}`."),
    Reason.SELECTOR_UNCONFIRMED: (
        CloseClass.SERVER,
        Action.WAIT,
        (
            "The apiserver does not confirm `shardSelector`, so the parts may overlap; enable its feature gate "
            "ShardedListAndWatch, or divide by namespace, label or field."
        ),
    ),
    Reason.UNEXPECTED_STATUS: (CloseClass.SERVER, Action.RESUME, "The HTTP status is not one that apiservers send."),
    Reason.GARBAGE: (CloseClass.SERVER, Action.RESUME, "The answer is not a valid answer of an apiserver."),
    Reason.OVERSIZE: (CloseClass.SERVER, Action.START_OVER, "An event is longer than the limit for one line."),
    Reason.UNPARSABLE: (
        CloseClass.SERVER,
        Action.WAIT,
        "The revision is not a number below 2^62, so this resource cannot be measured.",
    ),
    Reason.TIME_TRAVEL: (
        CloseClass.SERVER,
        Action.START_OVER,
        "The list is older than what the watch has already delivered.",
    ),
    # the revision is older than the headroom
    Reason.EXPIRED: (CloseClass.EXPIRED, Action.START_OVER, "The apiserver no longer has this revision."),
    # the network
    Reason.REFUSED: (CloseClass.NETWORK, Action.RETRY, "The apiserver refuses the connection."),
    Reason.UNREACHABLE: (CloseClass.NETWORK, Action.RETRY, "The apiserver cannot be reached."),
    Reason.DNS: (CloseClass.NETWORK, Action.RETRY, "The name of the apiserver does not resolve."),
    Reason.TLS: (CloseClass.NETWORK, Action.RETRY, "TLS with the apiserver fails; check its certificate and the CA."),
    Reason.TIMEOUT: (CloseClass.NETWORK, Action.RETRY, "The apiserver does not answer in time."),
    Reason.RESET: (CloseClass.NETWORK, Action.RESUME, "The connection was reset."),
    Reason.EARLY_EOF: (CloseClass.NETWORK, Action.RESUME, "The connection was cut within an event."),
    Reason.STALLED: (CloseClass.NETWORK, Action.RETRY, "The watch withheld events that an audit received."),
    # credentials and permissions
    Reason.UNAUTHORIZED: (
        CloseClass.CREDENTIALS,
        Action.REAUTHENTICATE,
        "The apiserver rejects the credentials; renew them.",
    ),
    Reason.FORBIDDEN: (CloseClass.CREDENTIALS, Action.WAIT, "This identity may not {verb} the resource; grant it."),
    Reason.CREDENTIALS: (CloseClass.CREDENTIALS, Action.REAUTHENTICATE, "The credentials cannot be used."),
    Reason.ROTATED: (CloseClass.CREDENTIALS, Action.STOP, "The credentials were renewed."),
    # by this process
    Reason.RELOAD: (CloseClass.OWN, Action.STOP, "The configuration was reloaded."),
    Reason.PAUSED: (CloseClass.OWN, Action.STOP, "Watching is paused."),
    Reason.SHUTDOWN: (CloseClass.OWN, Action.STOP, "The daemon is shutting down."),
    Reason.SUSPENDED: (CloseClass.OWN, Action.STOP, "The machine was suspended."),
    Reason.DOMAIN_RESET: (CloseClass.OWN, Action.STOP, "The revisions went backwards: the storage was restored."),
    Reason.SUPERSEDED: (CloseClass.OWN, Action.STOP, "The request was dropped because a newer one replaces it."),
}

_OF_WATCHES = (
    Reason.DEADLINE,
    Reason.APISERVER_SHUTDOWN,
    Reason.SLOW_CONSUMER,
    Reason.CRD_CHANGED,
    Reason.CRD_DELETED,
    Reason.EMPTY_CLOSE,
    Reason.STALLED,
)
LIST_FAILURES = tuple(
    reason
    for reason, (closed, _, _) in FAILURE_RULES.items()
    if closed is not CloseClass.OWN and reason not in _OF_WATCHES
)
"""Why lists fail, streamed ones included, other than for a reason of this process."""

_BY_STATUS: Mapping[int, Reason] = {
    HTTPStatus.BAD_REQUEST: Reason.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED: Reason.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: Reason.FORBIDDEN,
    HTTPStatus.NOT_FOUND: Reason.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: Reason.NOT_WATCHABLE,
    HTTPStatus.NOT_ACCEPTABLE: Reason.NOT_ACCEPTABLE,
    HTTPStatus.GONE: Reason.EXPIRED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: Reason.NOT_ACCEPTABLE,
    HTTPStatus.UNPROCESSABLE_ENTITY: Reason.INVALID,
    HTTPStatus.TOO_MANY_REQUESTS: Reason.THROTTLED,
}


_STREAMED_LIST_PARAMETERS = frozenset({"sendInitialEvents", "resourceVersionMatch"})
"""Parameters of streamed lists. A server that rejects them has none (seen on 1.30, and on 1.36 without the gate)."""


_INITIALIZING, _WEBHOOK = "storage is (re)initializing", "conversion webhook for "
"""How the message of a 429 begins that is no sign of load, because a watch cache is not filled; and what it contains if
it never will be. A list from etcd is answered by a 500 that begins with the latter (seen on 1.36)."""

_TOO_LARGE = "Timeout: Too large resource version"
"""How the message of a 429 begins if a cache is behind etcd, and etcd is not asked in its place: since 1.37, with the
gate `ConsistentListFromCacheSkipTimeoutFallback` (seen on 1.37.2). Its Status has no cause."""

CACHE_NOT_READY = frozenset({Reason.INITIALIZING, Reason.CONVERSION, Reason.FUTURE_REVISION})
"""The reasons of a 429 that is no sign of load; they have other codes, too."""

TOO_MANY_REQUESTS = CACHE_NOT_READY | {Reason.THROTTLED}


def because(
    reason: Reason,
    *,
    phase: Phase = Phase.STREAM,
    status: int | None = None,
    retry_after: float | None = None,
    continue_token: str | None = None,
) -> Failure:
    """Return the failure of a known reason, such as a broken connection or a shutdown."""
    closed, action, message = FAILURE_RULES[reason]
    if retry_after is not None:
        retry_after = float(min(max(retry_after, 0.0), LONGEST_RETRY_AFTER_SECONDS))  # it may be too large for a float
    return Failure(reason, closed, action, message.format(verb=phase.verb), retry_after, status, continue_token)


def unmeasurable(resource_version: str | None, phase: Phase) -> Failure:
    """Return the failure of a resource whose lists have this resourceVersion, which is no revision."""
    failure = because(Reason.UNPARSABLE, phase=phase)
    if not resource_version:
        why = "Lists have no resourceVersion"
    elif resource_version == "0":
        why = "Lists have the resourceVersion 0, which is no revision"
    elif resource_version.isdigit():
        return failure
    else:
        why = "Revisions are no numbers"
    return replace(failure, message=f"{why}, so no change can be dated.")


UNUSABLE = frozenset(
    {Reason.GARBAGE, Reason.UNEXPECTED_STATUS, Reason.NOT_ACCEPTABLE, Reason.BAD_REQUEST, Reason.INVALID}
    | {reason for reason, (_, action, _) in FAILURE_RULES.items() if action is Action.WAIT}
)
"""The reasons of answers that cannot be used: they are answers all the same, so nothing is silent."""

ENDED = because(Reason.FORCED)
"""A clean end of a watch, as the reader of the connection sees it; the machine decides whether it was the deadline."""


def classify_status(status: int, body: ApiStatus | None, retry_after: float | None, phase: Phase) -> Failure:
    """Return the failure of an HTTP answer other than 200.

    `body` is the decoded Status, if there is one; `retry_after` is the header's value in seconds.
    """
    body = body or ApiStatus()
    reason = _reason(status, body)
    waits = [seconds for seconds in (retry_after, body.retry_after) if seconds is not None]
    wait = max(waits, default=None)
    return because(reason, phase=phase, status=status, retry_after=wait, continue_token=body.continue_token)


def classify_stream_error(error: ApiStatus) -> Failure:
    """Return the failure of an ERROR event, a Status that ends an open watch."""
    status = error.code or int(HTTPStatus.INTERNAL_SERVER_ERROR)
    return classify_status(status, error, None, Phase.STREAM)


def _reason(status: int, body: ApiStatus) -> Reason:
    if said := _said(body):
        return said
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Reason.SERVER_ERROR
    return _BY_STATUS.get(status, Reason.UNEXPECTED_STATUS)


def _said(body: ApiStatus) -> Reason | None:
    """Return the reason that a Status gives, which is more exact than its code; None if it gives none."""
    message = body.message or ""
    if "ResourceVersionTooLarge" in body.causes or message.startswith(_TOO_LARGE):
        return Reason.FUTURE_REVISION
    if body.reason in ("Expired", "Gone"):
        return Reason.EXPIRED
    if message.startswith((_INITIALIZING, _WEBHOOK)):
        return Reason.CONVERSION if _WEBHOOK in message else Reason.INITIALIZING
    if body.fields & _STREAMED_LIST_PARAMETERS:
        return Reason.NO_STREAMED_LISTS
    return None


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, or None for a date, a form that apiservers do not send."""
    return float(value) if value and value.isascii() and value.isdigit() else None
