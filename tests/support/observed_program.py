"""`watchslo` with a record of the events, facts and samples inside it, and with two more signals.

    python observed_program.py NOTES AHEAD run --config ...

NOTES is a file of JSON lines, which `notes.py` reads. The wall clock of this process is AHEAD seconds ahead. SIGUSR1
blocks the event loop for `BLOCKED_SECONDS`. SIGUSR2 sets the wall clock ahead by `STEP_SECONDS`, and the next SIGUSR2
sets it back. Wrappers of watchslo's own methods make the record; watchslo itself has no code for it.
"""

import asyncio
import dataclasses
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from watchslo.cli import main
from watchslo.latency.pending import Arrivals
from watchslo.model import Bounds
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.monitor.protocol.guarantee_record import GuaranteeRecord
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.reaction.record import ReactionRecord
from watchslo.reaction.steps import Reaction
from watchslo.watch.machine import Machine
from watchslo.watch.messages import Emit, Gap, ListDone, Note, Relisted, Violated

BLOCKED_SECONDS = 3.0
STEP_SECONDS = 3600.0
NOTED_FACTS = (Gap, Relisted, ListDone)
COUNTED_EVERY_SECONDS = 1.0

watching: ContextVar[str] = ContextVar("watching", default="")
"""The label of the watch that started this task: the outputs of a machine appear in the tasks of its watch."""


class Notes:
    """The file of the record, flushed after each line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._labels: dict[int, str] = {}

    def add(self, kind: str, **facts: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **facts}) + "\n")

    def follow_streams(self) -> None:
        """Record live events, and the facts that explain missing ones."""
        run, receive = WatchSession.run, Machine.receive

        async def run_named(session: WatchSession) -> None:
            self._loop = asyncio.get_running_loop()
            self._labels[id(session.guarantees)] = session.label  # an audit that finds a violation has another task
            token = watching.set(session.label)
            try:
                await run(session)
            finally:
                watching.reset(token)

        def receive_and_note(machine: Machine, happened: Any, now: float) -> Any:
            outputs = receive(machine, happened, now)
            watch = self._labels.setdefault(id(machine), watching.get())  # a reset comes from another task
            for output in outputs:
                if isinstance(output, Emit):
                    batch = output.batch
                    self.add("seen", watch=watch, at=batch.received, revisions=batch.revisions)
                elif isinstance(output, Note) and isinstance(output.fact, NOTED_FACTS):
                    fields = dataclasses.asdict(output.fact)
                    self.add("fact", watch=watch, at=now, fact=type(output.fact).__name__, fields=fields)
            return outputs

        _replace(WatchSession, "run", run_named)
        _replace(Machine, "receive", receive_and_note)

    def follow_violations(self) -> None:
        """Record the guarantees that the daemon counts as violated, with the range of the revisions."""
        violate = GuaranteeRecord.violate

        def violate_and_note(record: GuaranteeRecord, violated: Violated) -> None:
            self.add("violated", watch=self._labels[id(record)], at=time.monotonic(), **dataclasses.asdict(violated))
            violate(record, violated)

        _replace(GuaranteeRecord, "violate", violate_and_note)

    def follow_samples(self) -> None:
        """Record the bounds of each sample when its second is sealed."""
        usable = Sealer._usable

        def note_and_return(
            sealer: Sealer, arrivals: Arrivals, index: Any, watches: Any, bounds: Bounds, own_delays: Any, queued: Any
        ) -> Any:
            good = usable(sealer, arrivals, index, watches, bounds, own_delays, queued)
            latency = bounds.less(own_delays)
            columns = arrivals.revisions, arrivals.received, latency.proven, latency.proven_upper
            for number, sealed in enumerate(watches):
                own, identity = good & (index == number), sealed.identity
                if own.any():
                    revisions, at, least, most = (column[own].tolist() for column in columns)
                    samples = {"revisions": revisions, "at": at, "least": least, "most": most}
                    self.add("samples", apiserver=identity.apiserver.name, watch=identity.label, **samples)
            return good

        _replace(Sealer, "_usable", note_and_return)

    def follow_reactions(self) -> None:
        """Record the reactions that are samples: their revisions, and when each was committed at least and at most."""
        add = ReactionRecord.add

        def note_and_add(record: ReactionRecord, reaction: Reaction, now: float) -> None:
            ends = reaction.asked, reaction.acted
            commits = [(end.commit.lower, end.commit.upper) for end in ends if end.commit]
            self.add("reaction", step=reaction.step, revisions=[end.revision for end in ends], commits=commits)
            add(record, reaction, now)

        _replace(ReactionRecord, "add", note_and_add)

    def count_tasks(self) -> None:
        """Record the number of tasks once a second."""
        while True:
            time.sleep(COUNTED_EVERY_SECONDS)
            if self._loop is not None:
                self.add("tasks", at=time.monotonic(), count=len(asyncio.all_tasks(self._loop)))


def _replace(owner: type, name: str, method: Any) -> None:
    setattr(owner, name, method)  # in a function, because mypy forbids the plain assignment


class WallClock:
    """A `time.time` that is `ahead`, and by a step for another hour."""

    def __init__(self, ahead: float) -> None:
        self._right = time.time
        self._step = 0.0
        time.time = lambda: self._right() + ahead + self._step

    def step(self, *_: object) -> None:
        self._step = STEP_SECONDS - self._step


def block(*_: object) -> None:
    time.sleep(BLOCKED_SECONDS)


def observe(path: str, ahead: float, arguments: Sequence[str]) -> None:
    """Run `watchslo` with these arguments, and with a wall clock that is `ahead` (seconds)."""
    notes = Notes(Path(path))
    notes.follow_streams()
    notes.follow_violations()
    notes.follow_samples()
    notes.follow_reactions()
    signal.signal(signal.SIGUSR1, block)
    signal.signal(signal.SIGUSR2, WallClock(ahead).step)
    threading.Thread(target=notes.count_tasks, daemon=True).start()
    sys.argv[1:] = arguments
    main()


if __name__ == "__main__":
    observe(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
