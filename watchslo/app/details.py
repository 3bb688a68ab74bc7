"""One watch in a terminal: the texts of a daemon's `/api/v1/watches`, or of our own measurement. Pure."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from watchslo.api.feed import WatchDetail, WatchDetails
from watchslo.api.part import decode
from watchslo.serve.detail import details
from watchslo.timeline.format import printable
from watchslo.timeline.timeline import Timeline

LABEL_CHARACTERS = 24  # of the widest label, with a space


def read_details(body: bytes) -> Sequence[WatchDetail]:
    """Return the watches of a daemon's answer; raises UnreadableError."""
    return decode(body, WatchDetails).watches


def own_details(timeline: Timeline, name: str) -> Sequence[WatchDetail]:
    """Return the watches of our own measurement with this name or key."""
    return details(timeline, name).watches


def written(watch: WatchDetail) -> Text:
    """Return all about the watch as lines, without control characters."""
    return Text("\n").join(Text(printable(line), style) for line, style in _lines(watch))


def _lines(watch: WatchDetail) -> Iterator[tuple[str, str]]:
    """Yield lines and their styles."""
    yield f"{watch.name}: {watch.condition}", "bold"
    if watch.explanation:
        yield watch.explanation, ""
    for cause in watch.causes:
        yield cause.sentence, "bold"
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
