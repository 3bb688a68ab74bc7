"""Finds controllers that act late although the events of their resources are in time."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from watchslo.diagnose.cause_rules.conditions import is_server_in_time
from watchslo.diagnose.evidence import Evidence, Key, Watch
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.sentences import seconds
from watchslo.model import resource_key
from watchslo.snapshot import Cause, Confidence, ReactionReading


def controller_slow(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """A controller acts late, no watch of its resource is late at any apiserver, and all apiservers are prompt.

    It explains no late watch.
    """
    slow: defaultdict[str, list[ReactionReading]] = defaultdict(list)
    for reaction in evidence.reactions:
        if reaction.slow:
            slow[resource_key(reaction.resource, reaction.group)].append(reaction)
    for resource, reactions in slow.items():
        if is_server_in_time(evidence, {resource}):
            watches = [watch for watch in evidence.watches.values() if watch.resource == resource]
            yield _controller_slow(resource, reactions, watches)


def _controller_slow(resource: str, reactions: Sequence[ReactionReading], watches: Sequence[Watch]) -> Finding:
    worst = max(reactions, key=lambda reaction: reaction.proven / (reaction.threshold or 1.0))
    threshold, oldest = worst.threshold or 0.0, worst.oldest_pending or 0.0
    measured = bool(watches) and all(watch.healthy for watch in watches)
    waiting = f"; {worst.pending} pending, the oldest for {seconds(oldest)}" if oldest > threshold else ""
    sentence = (
        f"For {resource}, {worst.responsible} takes at least {seconds(worst.proven)} "
        f"(step {worst.step}, threshold {seconds(threshold)}){waiting}; "
        f"events of {resource} {'are in time' if measured else 'are not known to be late'}."
    )
    name = min((watch.name for watch in watches), default=resource)
    return Finding(Cause.CONTROLLER_SLOW, None, name, Confidence.HIGH if measured else Confidence.MEDIUM, sentence)
