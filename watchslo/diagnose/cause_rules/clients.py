"""Finds clients whose caches lack events that our own watches have received in time."""

from collections.abc import Callable, Collection, Iterator, Sequence

from watchslo.diagnose.cause_rules.conditions import is_server_in_time
from watchslo.diagnose.evidence import Evidence, Key
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.sentences import seconds
from watchslo.model import resource_key
from watchslo.snapshot import Cause, ClientReading, Confidence, InformerReading, StoreVerdict

Informers = Sequence[InformerReading]


def client_connection(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Clients have received nothing of what was committed after the events that they lack, and nothing is queued.

    All informers of a client share one connection. If events of one resource are missing, that watch alone may be at
    fault; if the client exports no queue, so may its own code. Without watches at all apiservers, the one that sends to
    this client may be late.
    """
    found = list(_stale_clients(evidence, _has_received_nothing))
    if not found:
        return
    is_certain = evidence.several_watched and not evidence.witnesses and all(len(stale) > 1 for _, stale in found)
    confidence = Confidence.HIGH if is_certain else Confidence.MEDIUM
    sentence = "; ".join(f"{_lack(client, stale)}, and has received nothing later" for client, stale in found)
    yield Finding(Cause.CLIENT_CONNECTION, None, None, confidence, f"{sentence}; our own watches are in time.")


def client_slow(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Clients have received the events that their caches lack: items are queued on two pages in a row."""
    found = list(_stale_clients(evidence, _has_queued))
    if not found:
        return
    sentence = "; ".join(f"{_lack(client, stale)}; {_most_queued(stale)} items are queued" for client, stale in found)
    yield Finding(Cause.CLIENT_SLOW, None, None, Confidence.HIGH, f"{sentence}; our own watches are in time.")


def _stale_clients(evidence: Evidence, holds: Callable[[Informers], bool]) -> Iterator[tuple[ClientReading, Informers]]:
    """Yield the clients whose stale caches satisfy a condition, with these, if the server is in time."""
    for client in evidence.clients:
        stale = [informer for informer in client.informers if informer.verdict is StoreVerdict.STALE]
        resources = {resource_key(informer.resource, informer.group) for informer in stale}
        if stale and holds(stale) and is_server_in_time(evidence, resources):
            yield client, stale


def _has_received_nothing(stale: Informers) -> bool:
    if any(informer.overtaken or informer.queued for informer in stale):
        return False
    return len(stale) > 1 or stale[0].queued is not None


def _has_queued(stale: Informers) -> bool:
    return any(informer.waits for informer in stale)


def _lack(client: ClientReading, stale: Informers) -> str:
    """Return `manager has lacked events of 3 resources for at least 9.9 s (pods)`, with the worst resource."""
    worst = max(stale, key=_least_staleness)
    name = resource_key(worst.resource, worst.group)
    which = f"{len(stale)} resources, such as {name}," if len(stale) > 1 else name
    return f"{client.client} has lacked events of {which} for at least {seconds(_least_staleness(worst))}"


def _least_staleness(informer: InformerReading) -> float:
    return informer.staleness.lower if informer.staleness else 0.0


def _most_queued(stale: Informers) -> int:
    return max(informer.queued or 0 for informer in stale)
