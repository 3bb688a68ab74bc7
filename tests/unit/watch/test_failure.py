from collections.abc import Callable
from dataclasses import replace
from itertools import filterfalse

import pytest

from tests.support.transcripts import of_states
from watchslo.watch.decode import ApiStatus, Details, decode_status
from watchslo.watch.down_time import DownTime
from watchslo.watch.failure import (
    ENDED,
    FAILURE_RULES,
    Action,
    CloseClass,
    Failure,
    Phase,
    Reason,
    because,
    classify_status,
    classify_stream_error,
    parse_retry_after,
    unmeasurable,
)

TOO_LARGE = b"""{"kind":"Status","status":"Failure","reason":"Timeout","code":504,
"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large"}],"retryAfterSeconds":1}}"""
NO_WATCH_LIST = b"""{"kind":"Status","status":"Failure","reason":"Invalid","code":422,
"details":{"causes":[{"reason":"FieldValueForbidden","field":"sendInitialEvents"}]}}"""


def test_every_reason_has_one_rule_and_every_class_and_action_has_a_reason() -> None:
    assert set(FAILURE_RULES) == set(Reason)
    assert {closed for closed, _, _ in FAILURE_RULES.values()} == set(CloseClass)
    assert {action for _, action, _ in FAILURE_RULES.values()} == set(Action)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("phase", Phase)
def test_messages_are_sentences(reason: Reason, phase: Phase) -> None:
    message = because(reason, phase=phase).message
    assert message[0].isupper()
    assert message.endswith(".")
    assert "{" not in message
    assert "\n" not in message


def test_clean_end_counts_as_forced_by_the_apiserver() -> None:
    assert (ENDED.reason, ENDED.closed, ENDED.action) == (Reason.FORCED, CloseClass.SERVER, Action.RESUME)


STATUSES = (302, 400, 401, 403, 404, 405, 406, 410, 415, 418, 422, 429, 499, 500, 502, 503, 504)
STREAM_ERRORS = (
    ApiStatus(code=410, reason="Expired"),
    ApiStatus(code=410),
    ApiStatus(code=410, reason="Gone"),
    ApiStatus(code=500, reason="InternalError"),
    ApiStatus(code=429, reason="TooManyRequests"),
    ApiStatus(code=429, message="storage is (re)initializing"),
    ApiStatus(code=429, message="storage is (re)initializing: failed: conversion webhook for a/v1 failed"),
    ApiStatus(code=500, message="conversion webhook for a/v1, Kind=B failed"),
    ApiStatus(code=429, reason="TooManyRequests", message="Timeout: Too large resource version: 2, current: 1"),
    ApiStatus(code=500, message="no conversion webhook for a"),
    ApiStatus(code=401),
    ApiStatus(),
    ApiStatus(reason="Expired"),
    ApiStatus(code=403),
    ApiStatus(code=429, details=Details(retry_after_seconds=4)),
)
GONE = ("Expired", "Gone")


BODIES = {
    "404 without a status": (404, b"404 page not found\n"),
    "future revision": (504, TOO_LARGE),
    "rejected parameters": (422, NO_WATCH_LIST),
    **{
        f"{status} {reason}": (status, b'{"reason":"%b"}' % reason.encode()) for status in (410, 500) for reason in GONE
    },
}


def facts(failure: Failure) -> str:
    retry = "" if failure.retry_after is None else f", retry after {failure.retry_after:g} s"
    return f"{failure.reason}, {failure.closed}, {failure.action}, status {failure.status}{retry}"


def is_down(reason: Reason) -> bool:
    """Return True if a watch is down after this failure."""
    down = DownTime()
    down.failed(because(reason), 1000)
    return down.seconds(1001) == 1


def test_classified_failures_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    """In any phase, a status has one meaning."""
    states = {
        f"status {status}": sorted({facts(classify_status(status, None, None, phase)) for phase in Phase})
        for status in STATUSES
    }
    errors = {
        " ".join(["stream error", *(f"{word}" for word in (error.code, error.reason, error.message) if word)]): [
            facts(classify_stream_error(error))
        ]
        for error in STREAM_ERRORS
    }
    bodies = {
        f"body: {name}": [facts(classify_status(status, decode_status(body), None, Phase.OPEN))]
        for name, (status, body) in BODIES.items()
    }
    forbidden = [classify_status(403, None, None, Phase.LIST), classify_stream_error(ApiStatus(code=403))]
    outcomes: dict[str, list[str]] = {
        "messages of 403 for a list and a watch": [failure.message for failure in forbidden],
        "a watch is down after": sorted(map(str, filter(is_down, FAILURE_RULES))),
        "a watch is not down after": sorted(map(str, filterfalse(is_down, FAILURE_RULES))),
    }
    golden("watch-failures.txt", of_states({**states, **errors, **bodies, **outcomes}))


@pytest.mark.parametrize(
    ("metadata", "token"), [(b'{"continue": "abc"}', "abc"), (b'{"continue": ""}', None), (b"{}", None)]
)
def test_expired_continue_token_is_replaced_by_a_new_one(metadata: bytes, token: str | None) -> None:
    body = decode_status(b'{"kind": "Status", "code": 410, "reason": "Expired", "metadata": %b}' % metadata)
    assert classify_status(410, body, None, Phase.LIST) == because(Reason.EXPIRED, status=410, continue_token=token)
    assert because(Reason.EXPIRED, continue_token="abc").continue_token == "abc"


@pytest.mark.parametrize(
    ("header", "body", "expected"),
    [
        (None, None, None),
        (7.0, None, 7.0),
        (None, 3, 3.0),
        (7.0, 3, 7.0),
        (3.0, 7, 7.0),
        (0.0, None, 0.0),
        (86_400.0, None, 300.0),
        (None, -5, 0.0),
        (None, 10**400, 300.0),
    ],
)
def test_retry_after_is_the_longer_wait_up_to_a_limit(
    header: float | None, body: int | None, expected: float | None
) -> None:
    document = b'{"code":429,"details":{"retryAfterSeconds":%s}}' % (b"null" if body is None else str(body).encode())
    assert classify_status(429, decode_status(document), header, Phase.OPEN).retry_after == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1", 1.0),
        ("120", 120.0),
        *((odd, None) for odd in ("", None, "-1", "1.5", "²", "Wed, 21 Oct 2026 07:28:00 GMT")),
    ],
)
def test_parse_retry_after_accepts_only_seconds(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "Lists have no resourceVersion, so no change can be dated."),
        ("", "Lists have no resourceVersion, so no change can be dated."),
        ("0", "Lists have the resourceVersion 0, which is no revision, so no change can be dated."),
        ("1234/5678", "Revisions are no numbers, so no change can be dated."),
        ("9" * 30, because(Reason.UNPARSABLE, phase=Phase.LIST).message),
    ],
)
def test_list_without_a_revision_says_what_it_has_instead(text: str | None, said: str) -> None:
    assert unmeasurable(text, Phase.LIST) == replace(because(Reason.UNPARSABLE, phase=Phase.LIST), message=said)
