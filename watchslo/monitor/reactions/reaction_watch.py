"""The watch of whole objects by which the reactions of one resource are found."""

from collections.abc import Callable
from dataclasses import replace

from watchslo.kube.representation import Representation
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.watches.second_watch import SecondWatch
from watchslo.reaction.objects import REACTING
from watchslo.reaction.resource_reactions import ResourceReactions
from watchslo.watch.decode import Frames
from watchslo.watch.messages import Fact, Gap, Relisted, RelistReason
from watchslo.watch.strategy import STREAM, TAIL

STREAM_OR_TAIL = replace(STREAM, fallback=TAIL)  # pages of whole objects would be large


class ReactionWatch(SecondWatch):
    """Passes the whole objects of a resource to its `reactions`.

    It begins with the objects that exist, if the apiserver streams them: then the first change of each is understood.
    """

    def __init__(
        self, identity: WatchIdentity, reactions: ResourceReactions, lag: Lag, random: Callable[[], float]
    ) -> None:
        super().__init__(
            identity,
            Representation.PLAIN,
            random,
            "reaction_watch_closed",
            note=self._note_gap,
            seen=self._take,
            decoder=REACTING,
            strategy=STREAM_OR_TAIL,
        )
        self._reactions = reactions
        self._lag = lag

    async def run(self) -> None:
        """Watch until halted; a crash loses what was pending."""
        self._reactions.begin_again()
        await super().run()

    def start_over(self) -> None:
        """Forget every revision and every object: the storage was restored to an earlier state."""
        self._reactions.begin_again()
        super().start_over()

    def _take(self, received: float, frames: Frames) -> None:
        is_tainted = self._lag.tainted(received)
        self._reactions.take(frames, received, is_tainted=is_tainted, is_initial=not self.is_open)

    def _note_gap(self, fact: Fact) -> None:
        match fact:
            case Relisted(reason) if reason is not RelistReason.START:
                self._reactions.begin_again()
            case Gap():
                self._reactions.begin_again()
