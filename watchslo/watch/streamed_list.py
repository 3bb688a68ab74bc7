"""Streamed lists (WatchList, `sendInitialEvents=true`): tell initial objects from live events in one watch.

The apiserver sends the initial objects as ADDED, and live events in between as they happen. All initial objects are
older than the first live event: an ADDED that is newer than a live event is live too. A bookmark with the annotation
`k8s.io/initial-events-end` ends the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from watchslo.watch.decode import Added, Bookmark, Error, Frame, Frames, parse_revision
from watchslo.watch.flaws import Flaws
from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.listing import ListProgress
from watchslo.watch.messages import Batch, ListedObjects


@dataclass(slots=True)
class StreamedChunk:
    """One chunk of a streamed list: initial objects, live events, and what was wrong with the others."""

    batch: Batch
    flaws: Flaws
    uids: list[str | None] = field(default_factory=list)
    revisions: list[str | None] = field(default_factory=list)

    @property
    def objects(self) -> ListedObjects:
        return ListedObjects(self.uids, self.revisions)


def position_of_end(events: Sequence[Frame]) -> int:
    """Return the index of the frame that ends the list, a bookmark or an error, or the number of frames."""
    return next((place for place, event in enumerate(events) if _ends_list(event)), len(events))


def _ends_list(event: Frame) -> bool:
    return isinstance(event, Error) or (isinstance(event, Bookmark) and event.ends_list)


def separate(progress: ListProgress, frames: Frames, received: float, position: ReceivedPosition) -> StreamedChunk:
    """Separate initial objects from live events; move `progress.newest`, `progress.live_from` and `position` on."""
    chunk = StreamedChunk(Batch(received, [], [], []), Flaws(garbage=frames.garbage))
    for event in frames.events:
        assert not isinstance(event, Error)
        metadata = event.object.metadata
        revision = parse_revision(metadata.resource_version)
        if revision is None:
            chunk.flaws.unparsable += 1
        elif isinstance(event, Bookmark):
            continue  # progress only: an incomplete list cannot be resumed
        elif isinstance(event, Added) and (progress.live_from is None or revision <= progress.newest):
            chunk.uids.append(metadata.uid)
            chunk.revisions.append(metadata.resource_version)
            progress.newest = max(progress.newest, revision)
        elif revision <= progress.newest and position.event is None:
            continue  # older than the list or than an earlier watch: the end of the list shows whether it went back
        elif revision <= progress.newest and (broken := position.judge(revision, event)):
            chunk.flaws.add(broken, revision, event)
        else:
            if revision > progress.newest:
                position.move(revision, event)
            progress.newest = revision
            progress.live_from = progress.live_from or revision
            chunk.batch.revisions.append(revision)
            chunk.batch.types.append(event.type)
            chunk.batch.created.append(metadata.creation_timestamp)
    progress.items += len(chunk.uids)
    return chunk
