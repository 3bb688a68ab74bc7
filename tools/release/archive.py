"""Archives whose bytes depend on nothing but their files and one time."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath

EXECUTABLE, READABLE = 0o755, 0o644


def packed(files: Mapping[str, bytes], time: int, executables: frozenset[str] = frozenset()) -> bytes:
    """Return a `.tar.gz` of files by name, in that order, all of the same time (Unix seconds) and of root."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), time
            entry.mode = EXECUTABLE if name in executables else READABLE
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(tar.getvalue(), mtime=time)


def unpacked(archive: bytes) -> dict[str, bytes]:
    """Return the files of a `.tar.gz` by name, in the order of the archive."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            if content is not None:
                files[str(PurePosixPath(entry.name))] = content.read()
    return files
