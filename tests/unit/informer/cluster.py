"""A storage whose commits the test knows, our own watch of one resource, and the page of a program with an informer."""

from collections.abc import Sequence

from watchslo.clock.domain import Domain, Horizon
from watchslo.informer.delivered_runs import DeliveredRuns
from watchslo.informer.informed_client import InformedClient, own_watches
from watchslo.informer.judgement import OwnWatch
from watchslo.informer.page import InformerKey, InformerPage
from watchslo.model import Measure, Reading, Resource
from watchslo.snapshot import ClientReading

PODS = Resource("", "v1", "pods", namespaced=True)
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", namespaced=False)
THRESHOLD = 1.0
OF_PODS = InformerKey("manager", "", "v1", "pods")


def page(
    store: int | None = None, began: float = 100.0, seconds: float = 0.1, queued: int | None = None
) -> InformerPage:
    """Return a page with one informer of pods."""
    stores = {} if store is None else {OF_PODS: store}
    return InformerPage(began, began + seconds, stores, {} if queued is None else {OF_PODS: queued})


class OurWatch:
    """Our watch of pods, and a clock that ticks when the test says; everything before revision 10 is unknown."""

    def __init__(self, floor: int = 10, threshold: float = THRESHOLD) -> None:
        self.delivered = DeliveredRuns()
        self.delivered.begin(floor)
        self.domain = Domain("default")
        self.threshold = threshold
        self.is_current = True

    def tick(self, sent: float, revision: int, seconds: float = 0.01) -> None:
        self.domain.tick(Reading("events", sent, sent + seconds, revision))

    def deliver(self, received: float, *revisions: int) -> None:
        self.delivered.add(received, revisions)

    @property
    def own(self) -> OwnWatch:
        return self.of(PODS)

    def of(self, resource: Resource) -> OwnWatch:
        horizon: Horizon | None = self.domain.horizon if self.is_current else None
        measure: Measure = self.domain.clock.measure
        return OwnWatch(resource, self.domain.name, self.delivered, self.threshold, horizon, measure)


def settle(client: InformedClient, now: float, watches: Sequence[OwnWatch]) -> ClientReading:
    """Judge what can be judged, and return what is known then."""
    for _ in client.settle(now, own_watches(watches)):
        pass
    return client.reading(now)
