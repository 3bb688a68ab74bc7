"""A memory of objects that forgets those that changed the longest ago."""

from typing import Generic, TypeVar

T = TypeVar("T")

MOST_KNOWN = 50_000  # objects of one resource: about 10 MB


class KnownObjects(Generic[T]):
    """What is known of each object, by its uid, of at most `MOST_KNOWN`."""

    def __init__(self) -> None:
        self._known: dict[str, T] = {}

    def get(self, uid: str) -> T | None:
        return self._known.get(uid)

    def put(self, uid: str, value: T) -> None:
        """Remember what is known of an object, which has just changed."""
        self._known.pop(uid, None)
        self._known[uid] = value
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def forget(self, uid: str) -> T | None:
        """Forget an object and return what was known of it."""
        return self._known.pop(uid, None)

    def clear(self) -> None:
        self._known.clear()
