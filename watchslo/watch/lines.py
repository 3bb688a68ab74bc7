"""Whole lines out of a stream of chunks, in linear time however long a line is and however it is cut."""

DEFAULT_LIMIT_BYTES = 64 * 2**20  # etcd takes objects of 1.5 MiB by default; beyond this no peer is in its right mind


class LineTooLong(Exception):  # noqa: N818 (named after what the peer did)
    """A line has outgrown the limit: the stream is of no more use."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a line is longer than {limit} bytes")
        self.limit = limit


class LineSplitter:
    """Holds the line that is still arriving, `limit` bytes of it at most.

    The lines that a chunk completes leave as one block, newlines included: the decoder wants them like that, and a
    chunk of whole lines passes untouched. Each byte is looked at once, and copied at most twice.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit = limit
        self._partial = bytearray()

    @property
    def partial(self) -> bool:
        """Whether a line has begun and not ended: a stream that stops here was cut."""
        return bool(self._partial)

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that `chunk` completes, as one block, maybe empty.

        Raises:
            LineTooLong: the unfinished line is longer than the limit. It is let go; give up its stream.
        """
        end = chunk.rfind(b"\n") + 1
        if end == len(chunk) and not self._partial:
            return chunk
        if end == 0:
            self._hold(chunk)
            return b""
        block = b"".join((self._partial, memoryview(chunk)[:end]))
        self._partial = bytearray()
        self._hold(chunk[end:])
        return block

    def _hold(self, piece: bytes) -> None:
        if len(self._partial) + len(piece) > self._limit:
            self._partial = bytearray()
            raise LineTooLong(self._limit)
        self._partial += piece
