"""The protocol, step by step: transcripts in `tests/golden/machine`, and what holds in each state."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.transcripts import replay
from tests.unit.watch.protocol import (
    IN,
    REVISION,
    Run,
    change,
    facts,
    listing,
    opening,
    watching,
)
from tests.unit.watch.transcript import Transcript
from watchslo.watch import inventory as inventory_module
from watchslo.watch.decode import Added, Frames, Modified
from watchslo.watch.failure import FAILURE_RULES, Reason
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    Halt,
    Hasten,
    Input,
    ListDone,
    Listed,
    ListRequest,
    Opened,
    Received,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    Sent,
    Start,
    WakeAt,
    WatchRequest,
)
from watchslo.watch.strategy import PAGED, PARALLEL
from watchslo.watch.transitions import CONTRACTS, TRANSITIONS, State, Trigger, states_markdown

TESTS = Path(__file__).parents[2]
TRANSCRIPTS = sorted(TESTS.glob("golden/machine/*.txt"))
assert TRANSCRIPTS


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_machine_does_what_its_transcripts_say(path: Path, golden: Callable[[str, str], None]) -> None:
    text = replay(path.read_text(), lambda beginning: Transcript(beginning).step)
    golden(f"machine/{path.name}", text)


# The table


def test_every_state_can_be_reached() -> None:
    for state, reach in IN.items():
        assert reach().machine.state is state


def test_every_state_has_a_contract_and_transitions() -> None:
    assert set(CONTRACTS) == set(TRANSITIONS) == set(State)
    assert {trigger for ways in TRANSITIONS.values() for trigger in ways} == set(Trigger)


def test_every_state_accepts_halt() -> None:
    assert all(ways[Trigger.HALT] is State.HALTED for ways in TRANSITIONS.values())


# Inputs in each state

WAITING = {State.RELISTING, State.REOPENING, State.AWAY}
COMMANDS: list[tuple[Input, set[State], State | None]] = [
    (Begin(), set(State) - {State.NEW, State.HALTED}, None),
    (Reopen(), set(State) - {State.OPENING, State.WATCHING}, None),
    (Hasten(), set(State) - {State.RELISTING, State.REOPENING}, None),
    (Reset(), {State.NEW, State.HALTED}, None),
    (Halt(), {State.NEW, State.HALTED, *WAITING}, State.HALTED),
]


@pytest.mark.parametrize(
    ("command", "state", "after"),
    [(command, state, after) for command, states, after in COMMANDS for state in sorted(states)],
    ids=str,
)
def test_command_that_needs_no_request_does_nothing_or_only_changes_the_state(
    command: Input, state: State, after: State | None
) -> None:
    run = IN[state]()
    assert run.feed(command) == []
    assert run.machine.state is (after or state)


@pytest.mark.parametrize("state", sorted(WAITING))
def test_reset_while_waiting_lists(state: State) -> None:
    run = IN[state]()
    run.feed(Reset())
    assert run.machine.state is State.RELISTING


@pytest.mark.parametrize("reach", [listing, opening, watching])
def test_answers_of_the_wrong_kind_are_ignored(reach: Callable[[], Run]) -> None:
    run = reach()
    state, op = run.machine.state, run.op
    wrong: dict[State, list[Input]] = {
        State.LISTING: [Opened(op), Received(op, Frames([change(Added, 101)]), 0.0)],
        State.OPENING: [Listed(op, REVISION, 1, 1), Received(op, Frames([change(Added, 101)]), 0.0)],
        State.WATCHING: [Listed(op, REVISION, 1, 1), Opened(op)],
    }
    for answer in wrong[state]:
        assert run.feed(answer) == []
    assert run.machine.state is state


# Its arguments


def test_opening_lasts_from_the_request_that_left_this_process_to_the_answer() -> None:
    run = listing()
    assert run.machine.opening_for(run.now) is None
    run.page()
    assert run.machine.opening_for(run.now + 3.0) == 3.0
    run.feed(Sent(run.op), after=2.0)
    assert run.machine.opening_for(run.now + 3.0) == 3.0
    run.feed(Opened(run.op))
    assert run.machine.opening_for(run.now) is None


def test_pages_have_the_configured_size() -> None:
    machine = Machine(PAGED, 7, lambda: 0.5)
    assert machine.receive(Begin(), 0.0)[-1] == Start(1, ListRequest(limit=7))


@pytest.mark.parametrize(("chance", "timeout"), [(0.0, 300), (0.5, 450), (0.9999, 599)])
def test_watch_timeout_is_five_to_ten_minutes(chance: float, timeout: int) -> None:
    run = Run(random=lambda: chance)
    run.feed(Begin())
    assert run.page()[-1] == Start(2, WatchRequest(REVISION, timeout, bookmarks=True))


def test_too_many_held_events_relist_only_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "MOST_HELD", 1)
    run = Run(PARALLEL, inventory=Inventory())
    run.feed(Begin())
    run.page(100, token="two", a=1, b=2)
    run.feed(Opened(run.watch))
    run.bring(change(Modified, 101, uid="a"), change(Modified, 102, uid="a"))
    outputs = run.page(100, c=3)
    assert facts(outputs) == [ListDone("parallel", 100, 3, 400, 2, 0.0), Relisted(RelistReason.INVENTORY)]
    assert outputs[-1] == WakeAt(run.now + 10.0)
    assert run.machine.state is State.WATCHING
    assert run.wake(after=10.0)[0] == Start(4, ListRequest(limit=500))
    run.page(105, a=102, b=2, c=3)
    assert run.machine.inventory is not None
    assert len(run.machine.inventory) == 3


# The documentation

DOCS = TESTS.parent / "docs" / "watching.md"


def test_documentation_has_the_states() -> None:
    assert f"\n\n{states_markdown()}\n" in DOCS.read_text()
    assert len(states_markdown().splitlines()) == 2 + len(State)


@pytest.mark.parametrize("reason", Reason)
def test_documentation_explains_each_reason(reason: Reason) -> None:
    closed, action, message = FAILURE_RULES[reason]
    row = f"| `{closed}/{reason}` | {message.format(verb='watch')} | {action.replace('_', ' ')} |"
    assert row in DOCS.read_text().splitlines()
