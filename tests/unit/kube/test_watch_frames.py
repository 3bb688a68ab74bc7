"""The frames of an open watch: chunks of any size become decoded events."""

import json
from collections.abc import Iterable

from watchslo.kube.watch_response import WatchFrames
from watchslo.watch.decode import FrameReader
from watchslo.watch.failure import ENDED, Failure, Reason, because

RESET = because(Reason.RESET)


def event(revision: int) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": {"metadata": {"resourceVersion": str(revision)}}}).encode() + b"\n"


def frames(chunks: Iterable[bytes], end: Failure = ENDED, longest_line: int = 1000) -> WatchFrames:
    """Return the frames of a watch that delivers these chunks, one per second from 100.0 on, and then ends."""
    arrivals = iter([*enumerate(chunks)])

    async def read() -> tuple[float, bytes] | Failure:
        arrived = next(arrivals, None)
        return end if arrived is None else (100.0 + arrived[0], arrived[1])

    return WatchFrames(read, FrameReader(longest_line))


async def revisions(of: WatchFrames) -> list[tuple[float, int, list[str | None] | None]]:
    return [
        (received, size, [one.object.metadata.resource_version for one in decoded.events] if decoded else None)  # type: ignore[union-attr]
        async for received, size, decoded in of
    ]


async def test_frames_of_whole_lines_are_decoded_with_time_and_size() -> None:
    chunk = event(1) + event(2)
    made = frames([chunk, event(3)])
    assert await revisions(made) == [(100.0, len(chunk), ["1", "2"]), (101.0, len(event(3)), ["3"])]
    assert made.failure is ENDED
    assert not made.is_cut


async def test_frames_of_a_split_line_are_decoded_when_it_is_complete() -> None:
    made = frames([event(1)[:10], event(1)[10:] + event(2)[:5]], RESET)
    assert await revisions(made) == [(100.0, 10, None), (101.0, len(event(1)) - 5, ["1"])]
    assert made.failure is RESET
    assert made.is_cut


async def test_frames_after_the_end_are_none() -> None:
    made = frames([], RESET)
    assert await revisions(made) == []
    assert await revisions(made) == []
    assert made.failure is RESET


async def test_frames_end_at_a_line_that_is_too_long() -> None:
    made = frames([event(1), b"x" * 600, b"x" * 600, event(2)])
    assert await revisions(made) == [(100.0, len(event(1)), ["1"]), (101.0, 600, None), (102.0, 600, None)]
    assert made.failure == because(Reason.OVERSIZE)
