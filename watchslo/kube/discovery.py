"""Discovery: the resources that the apiserver serves, and how users name them."""

import asyncio
import contextlib
import difflib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import msgspec

from watchslo.documents import without_odd_entries
from watchslo.errors import UNDECODABLE, ConfigError
from watchslo.kube.call import LIST_SECONDS
from watchslo.kube.client import Client
from watchslo.kube.representation import JSON
from watchslo.model import Resource
from watchslo.snapshot import IncompleteGroup
from watchslo.watch.failure import Failure, Phase, Reason, because

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
ACCEPT = ",".join((_AGGREGATED.format(version="v2"), _AGGREGATED.format(version="v2beta1"), "application/json"))
"""Aggregated discovery (two documents for all groups) if the server has it: v2 since 1.30, v2beta1 since 1.26."""

CORE_PATH, GROUPS_PATH = "/api", "/apis"
CORE = "core"  # how messages name the group without a name
ABSENT_SECONDS = 60.0  # from the first answer without a resource to the one that shows that it is gone
AT_ONCE_SECONDS = 3.0  # for a group version; a healthy server answers within milliseconds, a slow one is asked again
MOST_AT_ONCE = 4  # requests for group versions in flight

NO_ANSWER = "The server of the API group does not answer discovery."
UNREADABLE = "A part of the API group's discovery document cannot be read."

T = TypeVar("T")

_TWINS = {"events.events.k8s.io": "events"}  # two names of the same objects: one watch is enough


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource in one version, with its verbs and other names."""

    resource: Resource
    verbs: frozenset[str]
    names: frozenset[str] = frozenset()

    @property
    def watchable(self) -> bool:
        return {"list", "watch"} <= self.verbs


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """All resources of one version of a group; `stale` means that its server did not answer discovery.

    `unreadable` means that a part of the group's document has another form; if its version cannot be read, that is "".
    """

    group: str
    version: str
    offers: tuple[Offer, ...] = ()
    stale: bool = False
    unreadable: bool = False

    @property
    def name(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Catalogue:
    """All served resources: the core group first, then the others, each with its preferred version first."""

    def __init__(self, versions: Iterable[GroupVersion]) -> None:
        self.versions = tuple(versions)
        self._offers = [offer for version in self.versions for offer in version.offers]

    @property
    def stale(self) -> tuple[str, ...]:
        """The group versions whose servers did not answer; the catalogue has their last known resources."""
        return tuple(version.name for version in self.versions if version.stale)

    @property
    def incomplete(self) -> tuple[IncompleteGroup, ...]:
        """The group versions and groups of which some resources may be unknown, each once."""
        stale = [IncompleteGroup(name, NO_ANSWER) for name in self.stale]
        odd = [IncompleteGroup(version.group or CORE, UNREADABLE) for version in self.versions if version.unreadable]
        return tuple(dict.fromkeys([*stale, *odd]))

    def resolve(self, name: str) -> Resource:
        """Return the resource that kubectl uses for `plural[.version][.group]`; raises ConfigError with the remedy."""
        found = [offer for reading in _readings(name) for offer in self._offers if reading.matches(offer.resource)]
        for offer in found:
            if offer.watchable:
                return offer.resource
        if found:
            verbs = ", ".join(sorted(found[0].verbs))
            only = f"only supports {verbs}" if verbs else "supports no verb"
            raise ConfigError(f"{name} cannot be listed and watched, because it {only}; remove it")
        raise ConfigError(f"the apiserver serves no resource {name}; {self._remedy(name)}")

    def expand(self, exclude: Iterable[str] = ()) -> list[Resource]:
        """Return the resources that `"*"` means: each watchable one in its preferred version, except `exclude`.

        An excluded name without a group excludes that plural in every group.
        """
        preferred: dict[str, Resource] = {}
        for offer in self._offers:
            if offer.watchable:
                preferred.setdefault(offer.resource.key, offer.resource)
        excluded = [reading for name in exclude for reading in _readings(name)]
        return [
            resource
            for key, resource in preferred.items()
            if _TWINS.get(key) not in preferred and not any(reading.matches(resource) for reading in excluded)
        ]

    def kept_where_unknown(self, last: "Catalogue | None") -> "Catalogue":
        """Return this catalogue, with the last resources of stale and unreadable group versions that have none now."""
        known = {version.name: version.offers for version in last.versions} if last else {}
        return Catalogue(
            version
            if version.offers or not (version.stale or version.unreadable)
            else replace(version, offers=known.get(version.name, ()))
            for version in self.versions
        )

    def with_kept(self, kept: "Iterable[tuple[GroupVersion, Offer]]") -> "Catalogue":
        """Return this catalogue with resources of an earlier one, after its own of the same group version."""
        versions = {version.name: version for version in self.versions}
        for old, offer in kept:
            version = versions.get(old.name, replace(old, offers=()))
            versions[old.name] = replace(version, offers=(*version.offers, offer))
        return Catalogue(versions.values())

    def with_answer(self, answer: GroupVersion) -> "Catalogue":
        """Return this catalogue with another answer of one group version."""
        return Catalogue(answer if version.name == answer.name else version for version in self.versions)

    def _remedy(self, name: str) -> str:
        wanted = name.split(".", maxsplit=1)[0].lower()
        for offer in self._offers:
            if wanted in offer.names:
                return f"did you mean {offer.resource.key}?"
        keys = {offer.resource.plural: offer.resource.key for offer in reversed(self._offers) if offer.watchable}
        near = difflib.get_close_matches(wanted, keys, n=1)
        if near:
            return f"did you mean {keys[near[0]]}?"
        if self.stale:
            return f"it may be in {', '.join(self.stale)}, which does not answer now"
        if self.incomplete:
            return f"it may be in {', '.join(group.name for group in self.incomplete)}, which cannot be read"
        return "look for it in `kubectl api-resources`"


class AbsentResources:
    """Keeps resources that are watched and that an answer lacks: one answer that contradicts all others may be wrong.

    A resource is gone once it has been absent for `ABSENT_SECONDS` and no watch of it is open. `watched` returns for
    each watched resource whether a watch is open.
    """

    def __init__(self, watched: Callable[[], Mapping[Resource, bool]]) -> None:
        self._watched = watched
        self._since: dict[Resource, float] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def kept(self, found: Catalogue, last: Catalogue | None, now: float) -> Catalogue:
        """Return what was found, with the absent resources of the last catalogue that are not gone yet."""
        served = {offer.resource for version in found.versions for offer in version.offers}
        absent = [
            (version, offer)
            for version in (last.versions if last else ())
            for offer in version.offers
            if offer.resource not in served
        ]
        if absent:
            watched = self._watched()
            absent = [(version, offer) for version, offer in absent if not self._is_gone(offer.resource, watched, now)]
        self._since = {offer.resource: self._since.get(offer.resource, now) for _, offer in absent}
        return found.with_kept(absent) if absent else found

    def _is_gone(self, resource: Resource, watched: Mapping[Resource, bool], now: float) -> bool:
        if resource not in watched:
            return True
        return not watched[resource] and now - self._since.get(resource, now) >= ABSENT_SECONDS


NAMELESS = GroupVersion("(without a readable name)", "", unreadable=True)


@dataclass(frozen=True, slots=True)
class _DiscoveryReading:
    """One way to read a name; None matches anything."""

    plural: str
    version: str | None
    group: str | None

    def matches(self, resource: Resource) -> bool:
        return (
            self.plural == resource.plural
            and self.version in (None, resource.version)
            and self.group in (None, resource.group)
        )


def _readings(name: str) -> Iterator[_DiscoveryReading]:
    """Yield all ways to read a name, in kubectl's order."""
    plural, *rest = name.split(".")
    if not rest:
        yield _DiscoveryReading(plural, None, None)
        return
    if len(rest) > 1:
        yield _DiscoveryReading(plural, rest[0], ".".join(rest[1:]))
    yield _DiscoveryReading(plural, None, ".".join(rest))
    if len(rest) == 1:
        yield _DiscoveryReading(plural, rest[0], "")


class Discovery:
    """Reads what an apiserver serves, and keeps the last answer. `client` returns the client to use.

    Resources with a watch stay in the catalogue while it is doubtful whether they are gone: see `AbsentResources`.

    Without aggregated discovery, the apiserver passes the request for a group version on to the server of the group,
    which may hang. So a few are asked at a time, and those that do not answer at once are stale until `ask_late`.
    """

    def __init__(self, client: Callable[[], Client], watched: Callable[[], Mapping[Resource, bool]] = dict) -> None:
        self._client = client
        self.absent = AbsentResources(watched)
        self._late: list[GroupVersion] = []
        self.catalogue: Catalogue | None = None

    async def refresh(self) -> Catalogue | Failure:
        """Read and return the catalogue; after a failure the old one stays in `catalogue`."""
        versions: list[GroupVersion] = []
        self._late = []
        for path in (CORE_PATH, GROUPS_PATH):
            found = await self._versions(path)
            if not isinstance(found, Failure):
                versions += found
            elif path != CORE_PATH or found.reason is not Reason.NOT_FOUND:  # some servers have no core group
                return found
        served = Catalogue(versions).kept_where_unknown(self.catalogue)
        self.catalogue = self.absent.kept(served, self.catalogue, time.monotonic())
        return self.catalogue

    async def ask_late(self, on_change: Callable[[], object]) -> None:
        """Wait for the group versions that did not answer at once, as long as for a list; take in each answer."""

        async def ask(version: GroupVersion) -> None:
            answer = await self._version(version, LIST_SECONDS)
            if self.catalogue is not None and not answer.stale:
                self.catalogue = self.catalogue.with_answer(answer)
                on_change()

        late, self._late = self._late, []
        await _few_at_once(ask, late)

    async def _versions(self, path: str) -> list[GroupVersion] | Failure:
        body = await self._client().document(path, ACCEPT)
        if isinstance(body, Failure):
            return body
        try:
            if _KIND.decode(body).kind == "APIGroupDiscoveryList":
                found = aggregated(body)
            else:
                found = await _few_at_once(self._version, group_versions(body))
        except UNDECODABLE:
            return because(Reason.GARBAGE, phase=Phase.LIST)
        return found if path == CORE_PATH else [version if version.group else NAMELESS for version in found]

    async def _version(self, listed: GroupVersion, seconds: float = AT_ONCE_SECONDS) -> GroupVersion:
        """Return a group version with its resources; one that is unreadable has none to ask for."""
        if listed.unreadable:
            return listed
        path = f"{GROUPS_PATH}/{listed.group}" if listed.group else CORE_PATH
        body = await self._client().document(f"{path}/{listed.version}", JSON, seconds)
        if isinstance(body, Failure):
            if body.reason is Reason.TIMEOUT:
                self._late.append(listed)
            return replace(listed, stale=True)
        return with_resources(listed, body)


async def _few_at_once(ask: Callable[[GroupVersion], Awaitable[T]], versions: Iterable[GroupVersion]) -> list[T]:
    """Return the answers for all group versions in their order, of which a few are asked at any time."""
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def in_turn(version: GroupVersion) -> T:
        async with turns:
            return await ask(version)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(in_turn(version)) for version in versions]
    return [task.result() for task in tasks]


# The documents of discovery. Every version of Kubernetes has the documents of single group versions. Go writes an empty
# list as null, also where an apiserver invents the parent of a subresource, so nothing but names is required.

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_NULL = msgspec.Raw(b"null")


class _ApiKind(msgspec.Struct):
    kind: str


class _ResponseKind(msgspec.Struct):
    kind: str | None = None


class _AggregatedResource(msgspec.Struct, rename="camel"):
    resource: _Name
    scope: str | None = None
    verbs: list[str] | None = None
    singular_resource: str | None = None
    short_names: list[str] | None = None
    response_kind: _ResponseKind | None = None


class _AggregatedVersion(msgspec.Struct):
    version: _Name
    resources: msgspec.Raw = _NULL
    freshness: str | None = None


class _GroupMetadata(msgspec.Struct):
    name: str | None = None


class _AggregatedGroup(msgspec.Struct):
    metadata: _GroupMetadata | None = None
    versions: msgspec.Raw = _NULL


class _AggregatedList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _ApiVersion(msgspec.Struct):
    version: _Name


class _PreferredVersion(msgspec.Struct):
    version: str | None = None


class _ApiGroup(msgspec.Struct, rename="camel"):
    name: str | None = None
    versions: msgspec.Raw = _NULL
    preferred_version: msgspec.Raw = _NULL


class _Groups(msgspec.Struct):
    """APIVersions of the core group, or an APIGroupList."""

    versions: msgspec.Raw = _NULL
    groups: list[msgspec.Raw] | None = None


class _ApiResource(msgspec.Struct, rename="camel"):
    name: _Name
    namespaced: bool | None = None
    verbs: list[str] | None = None
    kind: str | None = None
    singular_name: str | None = None
    short_names: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: msgspec.Raw = _NULL


_KIND = msgspec.json.Decoder(_ApiKind)


def aggregated(body: bytes) -> list[GroupVersion]:
    """Decode an APIGroupDiscoveryList entry by entry; raises one of UNDECODABLE if it is none."""
    items = msgspec.json.decode(body, type=_AggregatedList).items
    return [version for item in items or () for version in _aggregated_group(item)]


def _aggregated_group(item: msgspec.Raw) -> Iterator[GroupVersion]:
    try:
        group = msgspec.json.decode(item, type=_AggregatedGroup)
    except UNDECODABLE:
        yield NAMELESS
        return
    name = (group.metadata and group.metadata.name) or ""
    versions, is_odd = _entries(group.versions, _AggregatedVersion)
    for version in versions:
        resources, has_odd = _entries(version.resources, _AggregatedResource)
        offers = tuple(_aggregated_offer(name, version.version, entry) for entry in resources)
        yield GroupVersion(name, version.version, offers, stale=version.freshness == "Stale", unreadable=has_odd)
    yield from _unreadable_part(name, is_odd=is_odd)


def group_versions(body: bytes) -> list[GroupVersion]:
    """Decode APIVersions or an APIGroupList to group versions without resources, the preferred one of a group first.

    Raises one of UNDECODABLE if it is neither.
    """
    document = msgspec.json.decode(body, type=_Groups)
    names, is_odd = _entries(document.versions, _Name)
    core = [*(GroupVersion("", name) for name in names), *_unreadable_part("", is_odd=is_odd)]
    return [*core, *(version for item in document.groups or () for version in _listed_group(item))]


def _listed_group(item: msgspec.Raw) -> Iterator[GroupVersion]:
    try:
        group = msgspec.json.decode(item, type=_ApiGroup)
    except UNDECODABLE:
        yield NAMELESS
        return
    name = group.name or ""
    versions, is_odd = _entries(group.versions, _ApiVersion)
    try:
        preferred = msgspec.json.decode(group.preferred_version, type=_PreferredVersion | None)
    except UNDECODABLE:
        preferred, is_odd = None, True
    names = [preferred.version] if preferred else []
    names += [served.version for served in versions]
    yield from (GroupVersion(name, version) for version in dict.fromkeys(names) if version)
    yield from _unreadable_part(name, is_odd=is_odd)


def with_resources(listed: GroupVersion, body: bytes) -> GroupVersion:
    """Return a group version with the resources of its APIResourceList, without subresources."""
    try:
        resources = msgspec.json.decode(body, type=_Resources).resources
    except UNDECODABLE:
        return replace(listed, unreadable=True)
    entries, is_odd = _entries(resources, _ApiResource)
    offers = tuple(
        Offer(
            Resource(listed.group, listed.version, entry.name, bool(entry.namespaced)),
            frozenset(entry.verbs or ()),
            _names(entry.singular_name, entry.kind, entry.short_names),
        )
        for entry in entries
        if "/" not in entry.name
    )
    return replace(listed, offers=offers, unreadable=is_odd)


def _unreadable_part(group: str, *, is_odd: bool) -> list[GroupVersion]:
    return [GroupVersion(group, "", unreadable=True)] if is_odd else []


def _entries(entries: msgspec.Raw, form: type[T]) -> tuple[list[T], bool]:
    """Return the entries of a list that have this form, and whether anything in it has another one."""
    try:
        return msgspec.json.decode(entries, type=list[form] | None) or [], False  # type: ignore[valid-type]
    except UNDECODABLE:
        with contextlib.suppress(*UNDECODABLE):
            return without_odd_entries(entries, list[form]), True  # type: ignore[valid-type]
    return [], True


def _aggregated_offer(group: str, version: str, entry: _AggregatedResource) -> Offer:
    kind = entry.response_kind.kind if entry.response_kind else None
    return Offer(
        Resource(group, version, entry.resource, entry.scope == "Namespaced"),
        frozenset(entry.verbs or ()),
        _names(entry.singular_resource, kind, entry.short_names),
    )


def _names(singular: str | None, kind: str | None, short: list[str] | None) -> frozenset[str]:
    return frozenset(name.lower() for name in (singular, kind, *(short or ())) if name)
