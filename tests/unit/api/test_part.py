"""How documents are decoded, and how parts are made from readings."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf, nan
from typing import Annotated

import msgspec
import pytest

from tests.unit.serve import readings
from watchslo.api.feed import SeriesDocument, Update, WatchDetails
from watchslo.api.overview import OverviewDocument
from watchslo.api.part import ApiPart, From, Time, UnreadableError, decode, part_of
from watchslo.api.status import StatusDocument
from watchslo.overview.merge import InstanceAnswer, merge
from watchslo.serve import rows, update
from watchslo.serve.detail import details
from watchslo.serve.overview import document_of
from watchslo.serve.status import status_of
from watchslo.snapshot import Cause
from watchslo.timeline.timeline import Timeline

TIMELINE = Timeline()
ACCOUNT = TIMELINE.observe(readings.SNAPSHOT)
STATUS = status_of(readings.SNAPSHOT, ACCOUNT)
OVERVIEW = document_of(merge((InstanceAnswer("http://h0:9477", STATUS),), (), readings.SNAPSHOT.at_wall))
FULL = update.full(TIMELINE, ACCOUNT, [*rows.watches(ACCOUNT).values()])
SERIES = b"".join(update.series(update.past_watches(TIMELINE, None, 3600.0), 3600.0, 5.0))
DETAILS = details(TIMELINE, "jobs")
BODY = msgspec.json.encode(STATUS)


@dataclass(frozen=True)
class InnerReading:
    upper: float


@dataclass(frozen=True)
class OuterReading:
    inner: InnerReading
    several: tuple[InnerReading, ...]
    named: dict[str, InnerReading]
    began_wall: float
    ended_wall: float | None = None
    names: tuple[str, ...] = ()


class InnerPart(ApiPart, frozen=True, kw_only=True):
    """An inner part."""

    upper: float | None = None


class OuterPart(ApiPart, frozen=True, kw_only=True):
    """An outer part."""

    inner: InnerPart | None
    several: tuple[InnerPart, ...]
    named: dict[str, InnerPart]
    began_at: Annotated[Time, From("began_wall")]
    ended_at: Annotated[Time | None, From("ended_wall")]
    names: tuple[str, ...]
    deep: Annotated[float | None, From("inner.upper")]
    text: Annotated[str, From("inner.upper", str)]
    given: int


@pytest.mark.parametrize(("upper", "shown"), [(1.5, 1.5), (inf, None), (-inf, None), (nan, None)])
def test_part_has_the_attributes_of_its_reading(upper: float, shown: float | None) -> None:
    inner = InnerReading(upper)
    part = part_of(OuterPart, OuterReading(inner, (inner, inner), {"a": inner}, 1_700_000_000.25), given=7)
    one = InnerPart(upper=shown)
    assert part == OuterPart(
        inner=one,
        several=(one, one),
        named={"a": one},
        began_at=datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC),
        ended_at=None,
        names=(),
        deep=shown,
        text=str(upper),
        given=7,
    )


def test_keys_are_camel_case_and_times_rfc_3339() -> None:
    part = part_of(OuterPart, OuterReading(InnerReading(inf), (), {}, 1_700_000_000.0, names=("a", "b")), given=7)
    assert json.loads(msgspec.json.encode(part)) == {
        "inner": {"upper": None},
        "several": [],
        "named": {},
        "beganAt": "2023-11-14T22:13:20Z",
        "endedAt": None,
        "names": ["a", "b"],
        "deep": None,
        "text": "inf",
        "given": 7,
    }


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (BODY, StatusDocument),
        (FULL, Update),
        (SERIES, SeriesDocument),
        (msgspec.json.encode(DETAILS), WatchDetails),
        (msgspec.json.encode(OVERVIEW), OverviewDocument),
    ],
)
def test_each_document_survives_json(body: bytes, form: type[ApiPart]) -> None:
    assert body.startswith(b'{"apiVersion":"v1",')
    assert msgspec.json.encode(decode(body, form)) == body


def test_status_names_the_cluster_and_causes_are_sentences() -> None:
    assert STATUS.cluster == "prod-eu"
    assert STATUS.causes[1].sentence == (
        "Likely cause (medium): stalled watch of jobs. The watch of jobs has said nothing for 33.5 s. (stalled_stream) "
        "Look at what is between here and service."
    )


def test_each_cause_has_a_heading() -> None:
    headings = {cause: replace(readings.SNAPSHOT.causes[0], cause=cause).heading for cause in Cause}
    assert headings.pop(Cause.UNKNOWN) == "No known cause of the delay at 10.0.0.1:6443"
    assert all(heading.startswith("Likely cause (high): ") for heading in headings.values())


def test_unknown_fields_of_a_newer_daemon_are_ignored() -> None:
    assert decode(BODY.replace(b'"watches":[', b'"new":{"b":1},"watches":['), StatusDocument) == STATUS


def test_odd_entries_cost_only_themselves() -> None:
    document = json.loads(BODY)
    document["watches"] += [{**document["watches"][0], "latency": None}, 7]
    document["causes"].insert(0, {"cause": "unknown"})
    assert decode(json.dumps(document).encode(), StatusDocument) == STATUS


@pytest.mark.parametrize("version", [b'"v2"', b"2", b"null"])
def test_another_version_of_the_api_is_unreadable(version: bytes) -> None:
    with pytest.raises(UnreadableError):
        decode(BODY.replace(b'"apiVersion":"v1"', b'"apiVersion":' + version), StatusDocument)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"at": 3}', b'"\xff"', b"[" * 100_000])
def test_other_answers_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        decode(body, StatusDocument)


def test_quantile_that_is_judged_decides() -> None:
    found = {stream.watch: stream.latency for stream in STATUS.watches}
    decisive = found["pods"].decisive
    assert decisive is not None
    assert (decisive.q, decisive.lower) == (found["pods"].objective.quantile, 0.01)
    assert msgspec.structs.replace(found["pods"], judged=None).decisive is None
