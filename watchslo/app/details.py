"""One watch in a terminal: the texts of a daemon's `/api/v1/watches`, or of our own measurement. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from rich.text import Text

from watchslo.app.view import UnreadableError
from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE
from watchslo.serve.detail import details
from watchslo.timeline.format import printable
from watchslo.timeline.timeline import Timeline

LABEL_CHARACTERS = 24  # of the widest label, with a space


class ShownFact(msgspec.Struct):
    """A labelled text."""

    label: str
    text: str


class ShownSection(msgspec.Struct):
    """Facts with a common title."""

    title: str
    facts: list[ShownFact]


class ShownCause(msgspec.Struct):
    """An active cause."""

    cause: str
    confidence: str
    evidence: str
    next: str


class ShownEvent(msgspec.Struct):
    """An event of the timeline."""

    at: datetime
    text: str


class ShownWatch(msgspec.Struct):
    """One watch, as in the API; unknown fields are ignored."""

    key: str
    name: str
    condition: str
    explanation: str
    sections: list[ShownSection]
    causes: list[ShownCause]
    happened: list[ShownEvent]


class _DetailsAnswer(msgspec.Struct):
    watches: list[ShownWatch]


def read_details(body: bytes) -> Sequence[ShownWatch]:
    """Return the watches of a daemon's answer; raises UnreadableError."""
    try:
        return decode_document(body, _DetailsAnswer).watches
    except UNDECODABLE:
        raise UnreadableError from None


def own_details(timeline: Timeline, name: str) -> Sequence[ShownWatch]:
    """Return the watches of our own measurement with this name or key."""
    return read_details(details(timeline, name).model_dump_json(by_alias=True).encode())


def written(watch: ShownWatch) -> Text:
    """Return all about the watch as lines, without control characters."""
    return Text("\n").join(Text(printable(line), style) for line, style in _lines(watch))


def _lines(watch: ShownWatch) -> Iterator[tuple[str, str]]:
    """Yield lines and their styles."""
    yield f"{watch.name}: {watch.condition}", "bold"
    if watch.explanation:
        yield watch.explanation, ""
    for cause in watch.causes:
        yield f"Cause: {cause.evidence} ({cause.cause}, {cause.confidence} confidence) {cause.next}", "bold"
    for section in watch.sections:
        yield "", ""
        yield section.title, "bold"
        yield from ((f"  {fact.label:{LABEL_CHARACTERS}} {fact.text}", "") for fact in section.facts)
    yield "", ""
    yield "Timeline, the newest first", "bold"
    if not watch.happened:
        yield "  nothing yet", ""
    for event in reversed(watch.happened):
        yield f"  {event.at:%Y-%m-%d %H:%M:%S} UTC  {event.text}", ""
