"""Informers of other programs: how old their caches are, by client and resource."""

from watchslo.serve.metrics.family import counter, gauge
from watchslo.serve.metrics.labels import END, READ_VERDICT
from watchslo.serve.metrics.views import ends, per_client, per_informer

INFORMERS = (
    gauge(
        "informer_staleness_seconds",
        "Bounds in seconds for how long the caches of the resource have lacked an event, of which the worst counts; "
        "absent if unknown.",
        basic=per_informer(lambda i: ends(i.staleness), END),
        beta=True,
    ),
    gauge(
        "informer_queued_items",
        "Number of items that have arrived and wait for the cache, as the client says itself; the most of all its "
        "informers of the resource.",
        basic=per_informer(lambda i: i.queued),
        beta=True,
    ),
    counter(
        "informer_reads_total",
        "Total number of reads of the page of the client, by the worst verdict on its caches.",
        basic=per_client(lambda c: c.reads, READ_VERDICT),
        beta=True,
    ),
)
