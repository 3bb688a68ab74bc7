"""Checks the clocks: whether ticks work, how long they take, and whether one sequence numbers all resources."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.model import Interval, Reading, Resource, Source
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.assignment.tick_planner import EVENTS, NAMESPACES_EACH
from watchslo.rules.alerts.clock import COARSE_SHARE
from watchslo.timeline.format import counted, duration, some_of
from watchslo.watch.failure import Action, Failure, Reason

TICKS = 8
TICK_GAP_SECONDS = 0.17  # at other fractions of a second each time, which narrows the offset of the wall clock
PROBES_AT_ONCE = 4
MOST_PROBES = 64  # of one apiserver; a storage of its own is for whole API groups
OFFSET_SECONDS = 1.0  # of a wall clock; less does not matter to certificates and to people


@dataclass(frozen=True, slots=True)
class ClockResult:
    """The ticks through one apiserver, or why one failed, and how far its wall clock is ahead of ours in seconds."""

    name: str
    ticks: Sequence[Reading]
    failure: Failure | None
    offset: Interval | None


def clock_findings(results: Sequence[ClockResult], threshold: float) -> Iterator[DeploymentFinding]:
    """Yield findings about ticks and wall clocks; `threshold` is the least of all objectives, in seconds."""
    trips = {result.name: median_low(tick.round_trip for tick in result.ticks) for result in results if result.ticks}
    for result in results:
        if result.failure:
            yield problem(
                "ticks",
                f"Ticks through {result.name} fail. {result.failure.message}",
                "Grant `list` on the name that no object has (`watchslo rbac` writes it), or name a "
                "`clock.namespace` that may be read.",
            )
    for name, trip in trips.items():
        if trip > COARSE_SHARE * threshold:
            found = problem if trip >= threshold else warning
            yield found(
                "ticks",
                f"A tick through {name} takes {duration(trip)}, and the threshold is {duration(threshold)}: shorter "
                "latencies cannot be measured.",
                "Measure from nearer to the apiservers, or raise `objective.threshold`.",
            )
    fine = [trip for trip in trips.values() if trip <= COARSE_SHARE * threshold]
    if fine:
        yield good("ticks", f"Ticks through {counted(len(fine), 'apiserver')} take up to {duration(max(fine))}.")
    yield from _offset_findings(results)


def _offset_findings(results: Iterable[ClockResult]) -> Iterator[DeploymentFinding]:
    known = {result.name: result.offset for result in results if result.offset}
    wrong = {name: offset for name, offset in known.items() if _least(offset) > OFFSET_SECONDS}
    for name, offset in wrong.items():
        direction = "ahead of" if offset.lower > 0 else "behind"
        yield warning(
            "wall clocks",
            f"The wall clock of {name} is at least {duration(_least(offset))} {direction} ours. No latency depends on "
            "it, but times of logs do not match, and certificates may seem invalid.",
            "Synchronise both machines by NTP.",
        )
    if known and not wrong:
        yield good("wall clocks", f"{counted(len(known), 'wall clock')} may agree with ours.")


def _least(offset: Interval) -> float:
    """Return the least distance from zero that an offset may have."""
    return max(offset.lower, -offset.upper, 0.0)


@dataclass(frozen=True, slots=True)
class OrderResult:
    """Reads of many resources between two ticks: `foreign` contradict the ticks, `members` do not; by apiserver.

    `unparsable` are resources without numbers as revisions; `unread` are those that failed otherwise.
    """

    members: Mapping[str, Sequence[str]]
    foreign: Mapping[str, Sequence[str]]
    unparsable: Sequence[str] = ()
    unread: Sequence[str] = ()


def order_findings(result: OrderResult) -> Iterator[DeploymentFinding]:
    """Yield whether one sequence of revisions numbers the changes of all resources, at each apiserver."""
    subject = "revisions"
    for apiserver, resources in result.foreign.items():
        if not result.members.get(apiserver) and len(resources) > 1:
            yield problem(
                subject,
                f"{apiserver} answers with revisions of another storage: it may belong to another cluster.",
                "Correct `kubernetes.apiservers`.",
            )
        else:
            yield warning(
                subject,
                f"{some_of(resources)} at {apiserver} is numbered by another storage than the ticks: it gets a clock "
                "of its own, which has no witnesses.",
                "Nothing must be done if these resources are kept in another etcd or by an aggregated API.",
            )
    if result.unparsable:
        yield warning(
            subject,
            f"The revisions of {some_of(result.unparsable)} are not numbers, so these resources cannot be measured.",
            "Remove them from `watch`, or add them to `exclude`.",
        )
    if result.unread:
        yield unchecked(subject, f"The revisions of {counted(len(result.unread), 'resource')} could not be read.")
    count = len({resource for resources in result.members.values() for resource in resources})
    if count:
        yield good(subject, f"The revisions of {counted(count, 'resource')} fit between the ticks.")


async def watch_ticks(apiservers: Sequence[Apiserver], resource: Resource, namespace: str) -> list[ClockResult]:
    """Send some ticks through each apiserver, all apiservers at once; one that fails gets no further tick."""

    async def ticks_of(apiserver: Apiserver) -> ClockResult:
        ticks: list[Reading] = []
        failure: Failure | None = None
        while len(ticks) < TICKS and failure is None:
            match await apiserver.client.read_nothing(resource, namespace, "tick"):
                case Reading() as tick:
                    ticks.append(tick)
                    await asyncio.sleep(TICK_GAP_SECONDS)
                case failed:
                    failure = failed
        return ClockResult(apiserver.name, ticks, failure, apiserver.offset)

    return list(await asyncio.gather(*map(ticks_of, apiservers)))


async def choose_ticks(
    apiserver: Apiserver, watched: Iterable[tuple[Resource, str | None]], namespaces: Sequence[str]
) -> tuple[Resource, str]:
    """Return what can be ticked on, and where: events in one of the namespaces, or else a watched resource."""
    first = namespaces[0]
    events = [(EVENTS, namespace) for namespace in namespaces[:NAMESPACES_EACH]]
    for resource, namespace in (*events, *((resource, own or first) for resource, own in watched)):
        answer = await apiserver.client.read_nothing(resource, namespace, "tick")
        if isinstance(answer, Reading) or answer.action is not Action.WAIT:
            return resource, namespace
    return EVENTS, first


async def compare_revisions(
    apiservers: Sequence[Apiserver], on: Resource, watched: Sequence[tuple[Resource, str | None]], namespace: str
) -> OrderResult:
    """Read each watched resource, in its own namespace or in `namespace`, between two ticks of the first apiserver."""
    ticking = apiservers[0].client
    before = await ticking.read_nothing(on, namespace, "tick")
    turns = asyncio.Semaphore(PROBES_AT_ONCE)

    async def probe(apiserver: Apiserver, resource: Resource, within: str) -> Reading | Failure:
        async with turns:
            return await apiserver.client.read_nothing(resource, within, "probe")

    asked = [(apiserver, *target) for apiserver in apiservers for target in watched[:MOST_PROBES]]
    answers = await asyncio.gather(
        *(probe(apiserver, resource, own or namespace) for apiserver, resource, own in asked)
    )
    after = await ticking.read_nothing(on, namespace, "tick")
    sources = [(apiserver.name, resource.key) for apiserver, resource, _ in asked]
    return order_of(before, dict(zip(sources, answers, strict=True)), after)


def order_of(
    before: Reading | Failure, probes: Mapping[Source, Reading | Failure], after: Reading | Failure
) -> OrderResult:
    """Compare the revisions of probes with those of a tick before all of them, and of one after."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    foreign: defaultdict[str, list[str]] = defaultdict(list)
    unparsable: dict[str, None] = {}
    unread: dict[str, None] = {}
    for (apiserver, key), answer in probes.items():
        if isinstance(answer, Failure):
            (unparsable if answer.reason is Reason.UNPARSABLE else unread)[key] = None
        elif isinstance(before, Failure) or isinstance(after, Failure):
            unread[key] = None
        else:
            fits = before.revision <= answer.revision <= after.revision
            (members if fits else foreign)[apiserver].append(key)
    return OrderResult(members, foreign, [*unparsable], [*unread])
