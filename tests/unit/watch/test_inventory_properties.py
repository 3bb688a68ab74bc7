"""A small apiserver and a machine with an inventory: after any sequence, both have the same objects."""

from dataclasses import dataclass
from itertools import takewhile
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.watch.protocol import bookmark, change
from watchslo.watch.decode import Added, Deleted, Frame, Frames, Modified
from watchslo.watch.failure import ENDED, Reason, because
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    Cancel,
    Closed,
    Emit,
    Fact,
    Gap,
    Listed,
    ListedObjects,
    ListFailed,
    ListRequest,
    Note,
    Opened,
    Output,
    Received,
    Start,
    TypesChecked,
    Unseen,
    Violated,
    WakeAt,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, STREAM, Strategy
from watchslo.watch.transitions import State

PAGE = 2
ENDS = [ENDED, because(Reason.RESET), because(Reason.OVERSIZE)]
EXPIRED = because(Reason.EXPIRED, status=410)
KINDS: dict[str, type[Added | Modified | Deleted]] = {"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}


@dataclass(frozen=True)
class Change:
    revision: int
    kind: str
    uid: str


class Server:
    """All changes of the storage; a watch may begin from `oldest` or later."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.oldest = 0
        self.revision = 10

    def write(self, kind: str, uid: str) -> None:
        self.revision += 1
        self.changes.append(Change(self.revision, kind, uid))

    def objects(self, revision: int) -> dict[str, int]:
        """Return the objects at that revision, with their own revisions."""
        there: dict[str, int] = {}
        for past in takewhile(lambda past: past.revision <= revision, self.changes):
            there.pop(past.uid, None)
            if past.kind != "DELETED":
                there[past.uid] = past.revision
        return there

    def hidden(self, after: int, until: int) -> Unseen:
        """Return how the objects differ between two revisions."""
        old, new = self.objects(after), self.objects(until)
        return Unseen(
            changed=sum(new[uid] != old[uid] for uid in old.keys() & new.keys()),
            created=len(new.keys() - old.keys()),
            deleted=len(old.keys() - new.keys()),
        )


class World:
    """A server whose answers are late or missing: lists come in pages of two, events one by one."""

    def __init__(self, strategy: Strategy, random: Random) -> None:
        self.random = random
        self.server = Server()
        self.inventory = Inventory()
        self.machine = Machine(strategy, PAGE, random.random, inventory=self.inventory)
        self.now = 0.0
        self.alarm = 0.0
        self.lists: dict[int, ListRequest] = {}
        self.watches: dict[int, WatchRequest] = {}
        self.sent = 0  # the revision up to which the watch has delivered
        self.opened = False
        self.streamed: list[tuple[str, int]] | None = None  # objects that a streamed list has not sent yet
        self.gap: Gap | None = None
        self.disturbed = False
        self.there_at = 0  # the revision after which events are live
        self.delivered: set[int] = set()  # revisions that were emitted, or noted as a gap
        self.floor: int | None = None  # the revision when the first watch opened
        self.types_checked = 0
        self.uids = 0
        for _ in range(6):
            self.an_object_is_written()
        self.obey(self.machine.receive(Begin(), self.now))

    def obey(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Start(op, ListRequest() as request):
                    self.lists[op] = request
                case Start(op, WatchRequest() as request):
                    self.watches[op] = request
                    self.opened = False
                case Cancel(op):
                    self.lists.pop(op, None)
                    self.watches.pop(op, None)
                case WakeAt(time):
                    self.alarm = time
                case Emit(batch):
                    assert batch.revisions[0] > self.there_at, (
                        "objects that existed when the watch opened are not emitted"
                    )
                    self.delivered.update(batch.revisions)
                case Note(fact):
                    self.check(fact)
        if self.floor is None and self.machine.state is State.WATCHING:
            self.floor = self.machine.revision

    def check(self, fact: Fact) -> None:
        match fact:
            case TypesChecked(count):
                self.types_checked += count
            case Violated():
                raise AssertionError("the server broke no guarantee")
            case Gap():
                self.gap = fact
                self.delivered.update(range(fact.after + 1, fact.until + 1))
            case ListFailed():
                # a parallel list that started again may be newer than the watch, so its figures cannot be predicted
                self.disturbed = self.disturbed or self.machine.strategy in (PARALLEL, STREAM)
            case Unseen():
                if self.gap is None and not self.disturbed:
                    assert fact == Unseen(0, 0, 0)
                elif self.gap is not None and not self.disturbed:
                    assert fact == self.server.hidden(self.gap.after, self.gap.until)
                self.gap = None

    # Changes at the server

    def an_object_is_written(self) -> None:
        there = sorted(self.server.objects(self.server.revision))
        if self.random.random() < 0.3 or not there:
            self.uids += 1
            self.server.write("ADDED", f"uid-{self.uids}")
        else:
            self.server.write(self.random.choice(("MODIFIED", "DELETED")), self.random.choice(there))

    def the_cache_drops_its_events(self) -> None:
        self.server.oldest = self.server.revision

    # Answers to requests

    def a_page_is_answered(self) -> None:
        [(op, request)] = self.lists.items()
        del self.lists[op]
        at, place = map(int, (request.continue_token or f"{self.server.revision}/0").split("/"))
        if request.continue_token and at < self.server.oldest:
            self.obey(self.machine.receive(Closed(op, EXPIRED), self.now))
            return
        there = list(self.server.objects(at).items())
        rest = there[place:] if request.limit is None else there[place : place + PAGE]
        token = f"{at}/{place + PAGE}" if place + len(rest) < len(there) else None
        objects = ListedObjects([uid for uid, _ in rest], [str(since) for _, since in rest])
        self.obey(self.machine.receive(Listed(op, at, len(rest), 100, token, objects), self.now))

    def the_watch_advances(self) -> None:
        most = self.random.randint(1, 4)
        [(op, request)] = self.watches.items()
        if self.opened:
            self.deliver(op, most)
        elif request.revision is not None and request.revision < self.server.oldest:
            del self.watches[op]
            self.obey(self.machine.receive(Closed(op, EXPIRED), self.now))
        else:
            self.opened = True
            self.sent = self.server.revision if request.revision is None else request.revision
            self.there_at = self.sent
            self.streamed = None if request.revision is not None else list(self.server.objects(self.sent).items())
            self.obey(self.machine.receive(Opened(op), self.now))

    def deliver(self, op: int, most: int) -> None:
        frames: list[Frame] = []
        if self.streamed is not None:
            frames += [change(Added, since, uid=uid) for uid, since in self.streamed[:most]]
            self.streamed = self.streamed[most:]
            if len(frames) == most:
                self.read(op, frames)
                return
        news = [past for past in self.server.changes if past.revision > self.sent][:most]
        frames += [change(KINDS[past.kind], past.revision, uid=past.uid) for past in news]
        self.sent = news[-1].revision if news else self.sent
        if self.streamed is not None and (not news or most % 2):
            frames.append(bookmark(self.sent, end="true"))
            self.streamed = None
        self.read(op, frames)

    def read(self, op: int, frames: list[Frame]) -> None:
        self.obey(self.machine.receive(Received(op, Frames(frames), self.now), self.now))

    def the_watch_ends(self) -> None:
        failure = self.random.choice(ENDS)
        [op] = self.watches
        del self.watches[op]
        self.obey(self.machine.receive(Closed(op, failure), self.now))

    def the_list_fails(self) -> None:
        [op] = self.lists
        del self.lists[op]
        self.obey(self.machine.receive(Closed(op, because(Reason.SERVER_ERROR)), self.now))

    def the_alarm_goes_off(self) -> None:
        self.now = max(self.now, self.alarm)
        self.obey(self.machine.receive(Woken(), self.now))

    def a_random_event_happens(self) -> None:
        may = [self.an_object_is_written] * 3 + [self.the_alarm_goes_off]
        may += [self.a_page_is_answered] * 4 if self.lists else []
        may += [self.the_watch_advances] * 5 if self.watches else []
        rare = [self.the_cache_drops_its_events]
        rare += [self.the_list_fails] if self.lists else []
        rare += [self.the_watch_ends] if self.watches else []
        self.random.choice(rare if self.random.random() < 0.1 else may)()

    def all_requests_are_answered(self) -> None:
        """Answer all requests, then compare: a list of the true objects finds no unseen changes."""
        self.an_object_is_written()
        for _ in range(300):
            if self.lists:
                self.a_page_is_answered()
            elif self.watches and not self.up_to_date():
                self.the_watch_advances()
            elif self.machine.state is State.WATCHING and self.inventory.synced and self.at_rest():
                break
            else:
                self.the_alarm_goes_off()
        assert self.machine.state is State.WATCHING
        assert self.inventory.is_certain
        assert self.floor is not None
        assert self.delivered.issuperset(range(self.floor + 1, self.server.revision + 1)), (
            "each revision is delivered or in a gap"
        )
        truth = self.server.objects(self.server.revision)
        assert len(self.inventory) == len(truth)
        self.inventory.begin()
        self.inventory.list(list(truth), [str(since) for since in truth.values()])
        assert self.inventory.finish(self.server.revision, delivered=self.server.revision) == Unseen(0, 0, 0)

    def up_to_date(self) -> bool:
        return self.opened and self.streamed is None and self.machine.revision == self.server.revision

    def at_rest(self) -> bool:
        """Return True if no parallel list waits."""
        self.now = max(self.now, self.alarm)
        self.obey(self.machine.receive(Woken(), self.now))
        return not self.lists


@settings(max_examples=200)
@given(strategy=st.sampled_from([PAGED, PARALLEL, STREAM, CACHE]), seed=st.integers(0, 2**32))
def test_inventory_matches_the_server_after_any_sequence(strategy: Strategy, seed: int) -> None:
    world = World(strategy, Random(seed))
    for _ in range(3):
        for _ in range(40):
            world.a_random_event_happens()
        world.all_requests_are_answered()
        checked = world.types_checked
        world.an_object_is_written()
        while not world.up_to_date():
            world.the_watch_advances()
        assert world.types_checked > checked
