"""Discovery: the resources that the apiserver serves, and how users name them."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from watchslo.errors import UNDECODABLE, ConfigError
from watchslo.kube.client import Client
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Phase, Reason, because

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
ACCEPT = ",".join((_AGGREGATED.format(version="v2"), _AGGREGATED.format(version="v2beta1"), "application/json"))
"""Aggregated discovery (two documents for all groups) if the server has it: v2 since 1.30, v2beta1 since 1.26."""

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
    """All resources of one version of a group; `stale` means that its server did not answer discovery."""

    group: str
    version: str
    offers: tuple[Offer, ...]
    stale: bool = False

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

    def resolve(self, name: str) -> Resource:
        """Return the resource that kubectl uses for `plural[.version][.group]`; raises ConfigError with the remedy."""
        found = [offer for reading in _readings(name) for offer in self._offers if reading.matches(offer.resource)]
        for offer in found:
            if offer.watchable:
                return offer.resource
        if found:
            verbs = ", ".join(sorted(found[0].verbs))
            raise ConfigError(f"{name} cannot be listed and watched, because it only supports {verbs}; remove it")
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

    def kept_where_stale(self, last: "Catalogue | None") -> "Catalogue":
        """Return this catalogue, with the resources of the last one for stale group versions that have none now."""
        known = {version.name: version.offers for version in last.versions} if last else {}
        return Catalogue(
            replace(version, offers=known.get(version.name, ())) if version.stale and not version.offers else version
            for version in self.versions
        )

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
        return "look for it in `kubectl api-resources`"


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
    """Reads what an apiserver serves, and keeps the last answer. `client` returns the client to use."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self.catalogue: Catalogue | None = None

    async def refresh(self) -> Catalogue | Failure:
        """Read and return the catalogue; after a failure the old one stays in `catalogue`."""
        versions: list[GroupVersion] = []
        for path in ("/api", "/apis"):
            found = await self._versions(path)
            if isinstance(found, Failure):
                return found
            versions += found
        self.catalogue = Catalogue(versions).kept_where_stale(self.catalogue)
        return self.catalogue

    async def _versions(self, path: str) -> list[GroupVersion] | Failure:
        body = await self._client().document(path, ACCEPT)
        if isinstance(body, Failure):
            return body
        try:
            if _KIND.decode(body).kind == "APIGroupDiscoveryList":
                return aggregated(body)
            return [await self._version(group, version) for group, version in group_versions(body)]
        except UNDECODABLE:
            return because(Reason.GARBAGE, phase=Phase.LIST)

    async def _version(self, group: str, version: str) -> GroupVersion:
        body = await self._client().document(f"/apis/{group}/{version}" if group else f"/api/{version}")
        if isinstance(body, Failure):
            return GroupVersion(group, version, (), stale=True)
        try:
            return GroupVersion(group, version, offers(group, version, body))
        except UNDECODABLE:
            return GroupVersion(group, version, (), stale=True)


# The documents of discovery. Every version of Kubernetes has the documents of single group versions.


class _ApiKind(msgspec.Struct):
    kind: str


class _ResponseKind(msgspec.Struct):
    kind: str = ""


class _AggregatedResource(msgspec.Struct, rename="camel"):
    resource: str
    scope: str
    verbs: list[str]
    singular_resource: str = ""
    short_names: list[str] | None = None
    response_kind: _ResponseKind | None = None


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = "Current"


class _GroupMetadata(msgspec.Struct):
    name: str = ""


class _AggregatedGroup(msgspec.Struct):
    metadata: _GroupMetadata
    versions: list[_AggregatedVersion] | None = None


class _AggregatedList(msgspec.Struct):
    items: list[_AggregatedGroup]


class _ApiVersion(msgspec.Struct):
    version: str


class _ApiGroup(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_ApiVersion]
    preferred_version: _ApiVersion


class _Groups(msgspec.Struct):
    """APIVersions of the core group, or an APIGroupList."""

    versions: list[str] | None = None
    groups: list[_ApiGroup] | None = None


class _ApiResource(msgspec.Struct, rename="camel"):
    name: str
    namespaced: bool
    verbs: list[str]
    kind: str = ""
    singular_name: str = ""
    short_names: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_ApiResource]


_KIND = msgspec.json.Decoder(_ApiKind)


def aggregated(body: bytes) -> list[GroupVersion]:
    """Decode an APIGroupDiscoveryList; raises one of UNDECODABLE."""
    return [
        GroupVersion(
            group.metadata.name,
            version.version,
            tuple(_aggregated_offer(group.metadata.name, version.version, entry) for entry in version.resources or ()),
            stale=version.freshness == "Stale",
        )
        for group in msgspec.json.decode(body, type=_AggregatedList).items
        for version in group.versions or ()
    ]


def group_versions(body: bytes) -> list[tuple[str, str]]:
    """Decode APIVersions or an APIGroupList to (group, version), preferred first; raises one of UNDECODABLE."""
    document = msgspec.json.decode(body, type=_Groups)
    found = [("", version) for version in document.versions or ()]
    for group in document.groups or ():
        names = dict.fromkeys((group.preferred_version.version, *(version.version for version in group.versions)))
        found += [(group.name, name) for name in names]
    return found


def offers(group: str, version: str, body: bytes) -> tuple[Offer, ...]:
    """Decode an APIResourceList without subresources; raises one of UNDECODABLE."""
    return tuple(
        Offer(
            Resource(group, version, entry.name, entry.namespaced),
            frozenset(entry.verbs),
            _names(entry.singular_name, entry.kind, entry.short_names),
        )
        for entry in msgspec.json.decode(body, type=_Resources).resources
        if "/" not in entry.name
    )


def _aggregated_offer(group: str, version: str, entry: _AggregatedResource) -> Offer:
    kind = entry.response_kind.kind if entry.response_kind else ""
    return Offer(
        Resource(group, version, entry.resource, entry.scope == "Namespaced"),
        frozenset(entry.verbs),
        _names(entry.singular_resource, kind, entry.short_names),
    )


def _names(singular: str, kind: str, short: list[str] | None) -> frozenset[str]:
    return frozenset(name.lower() for name in (singular, kind, *(short or ())) if name)
