"""One request as a value, and the page that its answer is. Nothing here waits or sends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watchslo.kube.limiter import RequestClass
from watchslo.kube.list_body import decode_list
from watchslo.kube.representation import JSON, Representation
from watchslo.watch.decode import parse_revision
from watchslo.watch.failure import (
    Failure,
    Phase,
    unmeasurable,
)
from watchslo.watch.messages import ListedObjects, ListRequest, WatchRequest

OnSent = Callable[[], object]
"""Called when a request has waited for its turn in this process, and is sent."""
ABSENT_NAME = "watchslo-reads-nothing"
"""A name that no object and no namespace has. If an object had it, ticks would read it needlessly."""
TICK_SECONDS = 5.0  # a cached read blocks for up to 3 s, then etcd answers
LIST_SECONDS = 75.0  # for any size: an apiserver aborts after 60 s, even in the middle of the answer
LONGEST_BODY_BYTES = 256 * 2**20  # 500 of the largest objects, or the metadata of 100,000
LONGEST_NOTHING_BYTES = 64 * 2**10  # an empty list has some hundred bytes; many of them are in flight at once
MOST_REMAINING = 2**63 - 1  # the API defines the number as an int64
_CLASSES = {
    "tick": RequestClass.TICK,
    "nudge": RequestClass.AUDIT,
    "audit": RequestClass.AUDIT,
    "token_review": RequestClass.AUDIT,
    "access_review": RequestClass.AUDIT,
    "probe_cache": RequestClass.PROBE,
    "detect_cache": RequestClass.PROBE,
    "detect_storage": RequestClass.PROBE,
    "headroom": RequestClass.PROBE,
    "metrics_page": RequestClass.PROBE,
}
_ANY_NAME = f"metadata.name!={ABSENT_NAME}"


def request_class(kind: str, *, resumes: bool = False) -> RequestClass:
    """Return the class in which a request of this kind waits for its turn."""
    return RequestClass.RESUME if resumes else _CLASSES.get(kind, RequestClass.OTHER)


@dataclass(frozen=True, slots=True)
class Selectors:
    """Field, label and shard selectors that limit a list or a watch.

    An apiserver without sharded watches (KEP-5866) ignores `shard` silently. Apiservers of 1.36 also ignore it for
    watches without a watch cache, unless another selector is set (github.com/kubernetes/kubernetes/issues/140510).
    """

    fields: str | None = None
    labels: str | None = None
    shard: str | None = None

    @property
    def query(self) -> dict[str, str]:
        fields = self.fields or (_ANY_NAME if self.shard else None)
        pairs = (("fieldSelector", fields), ("labelSelector", self.labels), ("shardSelector", self.shard))
        return {key: value for key, value in pairs if value}


NOTHING = Selectors(fields=f"metadata.name={ABSENT_NAME}")


def has_own_connection(kind: str, selectors: Selectors) -> bool:
    """Return True if a watch has a connection that no other request uses.

    Short ones, as of audits, share connections: only those that are measured may not. A shard selector is confirmed on
    the same connection.
    """
    return kind == "watch" or selectors.shard is not None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: `items` objects in `size` bytes, as sent.

    `objects` has uids and revisions, if they were requested and the representation has them. `remaining` is the number
    of objects after this page, if the apiserver sends it: only without selectors, and not on the last page. `sharded`
    says whether the apiserver confirms that it applied a shard selector.
    """

    revision: int
    items: int
    size: int
    continue_token: str | None
    sent: float
    answered: float
    objects: ListedObjects | None = None
    remaining: int | None = None
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A request; `timeout` covers all of it, `patience` the time until its headers. With a `body` it is a POST.

    `resumes` says that it opens a watch again.
    """

    kind: str
    phase: Phase
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    timeout: float = LIST_SECONDS
    patience: float = LIST_SECONDS
    body: bytes | None = field(default=None, repr=False)
    resumes: bool = False
    on_sent: OnSent | None = None
    reads_nothing: bool = False

    @property
    def longest(self) -> int:
        """The most bytes that an answer may have."""
        return LONGEST_NOTHING_BYTES if self.reads_nothing else LONGEST_BODY_BYTES

    @property
    def media_type(self) -> str:
        """The only type that a complete answer may have."""
        return self.accept.partition(";")[0]

    @property
    def request_class(self) -> RequestClass:
        return request_class(self.kind, resumes=self.resumes)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers for the answer, and for a body; the session's own header asks for no encoding."""
        content = () if self.body is None else (("Content-Type", JSON),)
        return (("Accept", self.accept), *content)


@dataclass(frozen=True, slots=True)
class CompleteBody:
    """A complete body of `size` bytes before it was decompressed, and when it was requested and read."""

    body: bytearray
    size: int
    sent: float
    answered: float


def list_query(request: ListRequest) -> dict[str, str]:
    """Return the parameters of a list."""
    query = {} if request.limit is None else {"limit": str(request.limit)}
    if request.continue_token is not None:  # it contains the revision, and apiservers refuse a second one
        return query | {"continue": request.continue_token}
    if request.from_cache:
        return query | {"resourceVersion": "0"}
    if request.not_older_than is not None:
        match = {"resourceVersionMatch": "NotOlderThan"} if request.states_match else {}
        return query | {"resourceVersion": str(request.not_older_than)} | match
    return query


def watch_query(request: WatchRequest) -> dict[str, str]:
    """Return the parameters of a watch."""
    query = {"watch": "1", "timeoutSeconds": str(request.timeout)}
    if request.revision is None:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    else:
        query["resourceVersion"] = str(request.revision)
    if request.bookmarks or request.revision is None:  # a bookmark ends a streamed list
        query["allowWatchBookmarks"] = "true"
    return query


def page_of(
    answer: CompleteBody | Failure, representation: Representation = Representation.PLAIN, *, with_objects: bool = False
) -> Page | Failure:
    """Return the page of a list that an answer is, or why it is none."""
    if isinstance(answer, Failure):
        return answer
    listed = decode_list(answer.body, representation, with_objects=with_objects)
    if isinstance(listed, Failure):
        return listed
    revision = parse_revision(listed.revision)
    if revision is None:
        return unmeasurable(listed.revision, Phase.LIST)
    return Page(
        revision=revision,
        items=listed.items,
        size=answer.size,
        continue_token=listed.continue_token or None,
        sent=answer.sent,
        answered=answer.answered,
        objects=listed.objects,
        remaining=_remaining(listed.remaining),
        sharded=listed.sharded,
    )


def _remaining(count: int | None) -> int | None:
    """Return the number of objects after a page, or None if the apiserver sends none that is possible."""
    return None if count is None or not 0 <= count <= MOST_REMAINING else count
