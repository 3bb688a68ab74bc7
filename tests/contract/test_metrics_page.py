"""The families that are read of an apiserver's own metrics, and their labels, are those that apiservers serve."""

import time

from tests.contract.backend import Backend, real
from tests.contract.cluster import CONFIGMAPS, SECRETS, Author, Cluster, client_of
from watchslo.kube.client import NO_METRICS, Client
from watchslo.own_metrics.families import FAMILIES, Figure
from watchslo.own_metrics.history import figures
from watchslo.own_metrics.line_filter import LineFilter
from watchslo.own_metrics.page import FigureKey, MetricsPage, parse_page
from watchslo.own_metrics.series import series_name
from watchslo.watch.failure import Reason

ALWAYS = {
    b"process_start_time_seconds",
    b"process_cpu_seconds_total",
    b"apiserver_watch_cache_events_received_total",
    b"etcd_request_duration_seconds",
    b"apiserver_current_inflight_requests",
    b"apiserver_storage_list_returned_objects_total",
}
OF_DISPATCH, OF_CACHED_LISTS = (
    b"apiserver_watch_events_dispatch_duration_seconds",
    b"apiserver_cache_list_returned_objects_total",
)
WRITES = 8

pytestmark = real("a simulated apiserver serves no /metrics")


async def read(client: Client) -> tuple[MetricsPage, set[bytes]]:
    """Return the page, and the names of the families that were kept."""
    kept = LineFilter()

    async def take(piece: bytes) -> None:
        kept.feed(piece)

    failure = await client.read_metrics(take)
    assert failure is None, failure
    kept.finish()
    work = parse_page(kept.lines, [CONFIGMAPS.key, "replicasets.apps"], time.monotonic(), time.time())
    while True:
        try:
            next(work)
        except StopIteration as ended:
            page: MetricsPage = ended.value
            names = {series_name(line) for line in kept.lines}
            return page, {family for family in FAMILIES if any(name.startswith(family) for name in names)}


async def test_families_are_served_and_can_be_read(client: Client, author: Author, backend: Backend) -> None:
    await author.until_cached(await author.create("one"))
    page, names = await read(client)
    assert names >= ALWAYS
    assert {OF_DISPATCH, OF_CACHED_LISTS} & names == {OF_DISPATCH if backend.dispatch_metrics else OF_CACHED_LISTS}
    assert page.garbled == 0
    assert page.started is not None
    assert abs(time.time() - page.started) < 12 * 3600


async def test_figures_count_what_was_written_in_between(client: Client, author: Author) -> None:
    before, _ = await read(client)
    for number in range(WRITES):
        revision = await author.create(f"of-{number}")
    await author.until_cached(revision)
    after, _ = await read(client)
    found = figures(before, after)
    assert found is not None
    assert found.resources[CONFIGMAPS.key].received >= WRITES
    assert found.etcd is not None
    assert found.etcd.total >= WRITES
    assert 0.0 < found.etcd.sum < 60.0 * found.etcd.total
    assert FigureKey(Figure.RECEIVED, CONFIGMAPS.key) in after.values


async def test_missing_right_is_named(cluster: Cluster) -> None:
    """This identity may read all other resources, and no path."""
    async with cluster.without_rights(SECRETS) as access, client_of(access) as confined:
        failure = await confined.read_metrics(dropped)
    assert failure is not None
    assert (failure.reason, failure.message) == (Reason.FORBIDDEN, NO_METRICS)


async def dropped(_: bytes) -> None: ...
