"""Split a stream of chunks into whole lines, in linear time for any length of lines and chunks."""

DEFAULT_LIMIT_BYTES = 16 * 2**20  # etcd accepts objects of 1.5 MiB by default; each watch may keep so much of a line


class LineTooLong(Exception):  # noqa: N818 (named after what the peer did)
    """A line is longer than the limit: the rest of the stream cannot be used."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a line is longer than {limit} bytes")
        self.limit = limit


class LineSplitter:
    """Joins chunks into whole lines, and keeps at most `limit` bytes of an unfinished line.

    The lines that a chunk completes are returned as one block with their newlines, as the decoder needs them. A chunk
    of whole lines is returned without a copy. Each byte is searched once and copied at most twice.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit = limit
        self._partial = bytearray()

    @property
    def partial(self) -> bool:
        """Return True if a line is unfinished: a stream that ends here was cut."""
        return bool(self._partial)

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that `chunk` completes, as one block, which may be empty.

        Raises:
            LineTooLong: the unfinished line is longer than the limit. It is dropped; close the stream.
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
