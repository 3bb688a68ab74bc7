"""The live events of a watch: those of one chunk that are newer than everything before them."""

from dataclasses import dataclass, field

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import ApiStatus, Bookmark, Change, Error, Frames, parse_revision
from watchslo.watch.flaws import Flaws
from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.messages import Batch


@dataclass(slots=True)
class LiveChunk:
    """One chunk of an open watch: its live events, the revisions of its bookmarks, and what was wrong with the others.

    `newest` is the newest revision that is known after it, `error` why the watch failed, if it did.
    """

    batch: Batch
    flaws: Flaws
    newest: int
    bookmarks: list[int] = field(default_factory=list)
    error: ApiStatus | None = None


def sort_live(frames: Frames, received: float, newest: int, position: ReceivedPosition) -> LiveChunk:
    """Return what a chunk brings to a watch that knows everything up to `newest`, and move its position on.

    This loop runs for every event. What follows an error is ignored.
    """
    chunk = LiveChunk(Batch(received, [], [], []), Flaws(garbage=frames.garbage), newest)
    batch = chunk.batch
    last: Change | None = None
    for event in frames.events:
        if isinstance(event, Error):
            chunk.error = event.object
            break
        metadata = event.object.metadata
        revision = parse_revision(metadata.resource_version)
        if revision is None:
            chunk.flaws.unparsable += 1
        elif isinstance(event, Bookmark):
            newest = _mark(chunk, event, revision, newest, position)
        elif revision > newest or _belongs(chunk, event, revision, last, position):
            newest, last = revision, event
            batch.revisions.append(revision)
            batch.types.append(event.type)
            batch.created.append(metadata.creation_timestamp)
    if last is not None:
        position.move(batch.revisions[-1], last)
    chunk.newest = newest
    return chunk


def _mark(chunk: LiveChunk, bookmark: Bookmark, revision: int, newest: int, position: ReceivedPosition) -> int:
    """Take in a bookmark, and return the newest revision that is known after it."""
    if revision < newest:
        chunk.flaws.add(Guarantee.BOOKMARKABLE, revision, bookmark)
        return newest
    position.bookmark = revision
    chunk.bookmarks.append(revision)
    return revision


def _belongs(chunk: LiveChunk, event: Change, revision: int, last: Change | None, position: ReceivedPosition) -> bool:
    """Return True if an event that is not newer is one of several events of one revision; else it broke a guarantee."""
    if last is not None:
        position.move(chunk.batch.revisions[-1], last)
    broken = position.judge(revision, event)
    if broken:
        chunk.flaws.add(broken, revision, event)
    return broken is None
