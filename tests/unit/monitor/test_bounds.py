"""Nothing that the monitor keeps grows with the number of watches and apiservers that came and went."""

import asyncio
import functools
import types
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, NODES, Cluster
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.config.model import Config
from watchslo.model import Resource
from watchslo.watch.failure import Reason

HOSTS = ("10.0.0.1", "10.0.0.2")
ROUNDS = 8
ROUND_SECONDS = 8
SETTLED_SECONDS = 330  # until windows of five minutes are full again, and what is refused is tried again
WRITE_SECONDS = 0.8  # between two events of a resource: enough of them in a minute for all quantiles
SLACK = 5  # entries, such as a request that only the churn has made: much less than one for each round

BOUNDED = (
    "Outcomes.closed",
    "OutcomeReading.closed",  # at most one entry for each reason that a watch of this apiserver ended for
    "NativeBuckets.counts",  # one for each bucket between the shortest and the longest latency so far
)


def sizes(root: object) -> Counter[str]:
    """Return the sizes of all containers reachable from an object by their attributes, and the instances by class."""
    found: Counter[str] = Counter()
    seen: dict[int, object] = {}
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        name, one = waiting.pop()
        if isinstance(one, dict | list | tuple | set | frozenset | deque | types.MappingProxyType):
            found[name] += len(one)
        if id(one) in seen or isinstance(one, str | bytes | int | float | None | type | types.ModuleType):
            continue
        seen[id(one)] = one
        waiting += ((part_name or name, part) for part_name, part in _parts(one))
        if _is_ours(one):
            found[type(one).__name__] += 1
    return found


def _is_ours(one: object) -> bool:
    return type(one).__module__.startswith("watchslo.")


def _parts(one: object) -> Iterator[tuple[str, object]]:
    """Yield what an object refers to, with the name of the attribute if that is ours."""
    match one:
        case Mapping():
            yield from (("", part) for pair in one.items() for part in pair)
        case list() | tuple() | set() | frozenset() | deque():
            yield from (("", part) for part in one)
        case functools.partial():
            yield from (("", part) for part in (one.func, *one.args, *one.keywords.values()))
        case types.MethodType():
            yield "", one.__self__
        case types.FunctionType():
            yield from (("", cell.cell_contents) for cell in one.__closure__ or ())
        case _ if _is_ours(one):
            owner = type(one)
            slots = (slot for base in owner.__mro__ for slot in getattr(base, "__slots__", ()))
            for attribute in {*getattr(one, "__dict__", {}), *slots}:
                yield f"{owner.__name__}.{attribute}", getattr(one, attribute, None)


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    return {
        name: (before[name], size)
        for name, size in after.items()
        if size > before[name] + SLACK and name not in BOUNDED
    }


def test_sizes_finds_containers_and_instances() -> None:
    made = config("pods", "nodes")
    found = sizes(made)
    assert found["Config.watch"] == found["WatchConfig"] == 2
    assert grown(found, found + Counter({"Config.watch": SLACK + 1})) == {"Config.watch": (2, 2 + SLACK + 1)}


def shards(*namespaces: str) -> Config:
    """Return the configuration of a watch of pods in each namespace, of nodes, and of all custom resources."""
    watches: list[dict[str, Any]] = [{"resource": "pods", "namespace": name, "name": name} for name in namespaces]
    return Config.model_validate(
        {
            "watch": [*watches, {"resource": "nodes", "hops": True, "reference": True}, {"resource": "*"}],
            "exclude": ["events", "pods", "nodes"],
            "kubernetes": {"apiservers": "each", "apiserverMetrics": True},
            "objective": {"threshold": "100ms"},
            "limits": {"auditsPerSecond": 4, "requestsPerSecond": 100},
        }
    )


@pytest.mark.timeout(900)  # many seconds of CPU
async def test_nothing_is_kept_of_watches_and_apiservers_that_have_gone(cluster: Cluster) -> None:
    """In each round, one apiserver, one namespace and one resource replace others; some of them fail."""
    cluster.announce(*HOSTS)
    async with running(shards("a", "b")) as run, asyncio.TaskGroup() as writing:
        total = 2 * SETTLED_SECONDS + ROUNDS * ROUND_SECONDS
        writing.create_task(keep_writing(cluster, NODES, CONFIGMAPS, seconds=total, gap=WRITE_SECONDS))
        run.supervisor.configure(shards("a", "b"))  # a watch that stays keeps its first configuration
        await asyncio.sleep(SETTLED_SECONDS)
        before = sizes(run.supervisor)
        cluster.fail(Reason.NOT_ACCEPTABLE, "audit")
        for number in range(ROUNDS):
            things = Resource("example.org", "v1", f"things{number}", namespaced=True)
            cluster.served.append(things)
            cluster.slow_at = {f"10.0.1.{number}": 0.3}
            cluster.announce("10.0.0.1", f"10.0.1.{number}")
            run.supervisor.configure(shards("a", f"c{number}"))
            await asyncio.sleep(ROUND_SECONDS)
            assert {f"c{number}", f"things{number}.example.org"} <= {*run.labels}
            cluster.drop(things)
        cluster.fail(None, "audit")
        cluster.announce(*HOSTS)
        run.supervisor.configure(shards("a", "b"))
        await asyncio.sleep(SETTLED_SECONDS - 1)
        after = sizes(run.supervisor)
    kept = grown(before, after)
    assert not kept, kept
