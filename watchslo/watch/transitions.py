"""The list and watch protocol as a table: the states of one watch, what triggers a change, and where it leads."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """What is in progress. A watch is up while it is `watching`."""

    NEW = "new"
    LISTING = "listing"
    RELISTING = "relisting"
    OPENING = "opening"
    WATCHING = "watching"
    REOPENING = "reopening"
    AWAY = "away"
    HALTED = "halted"


class Trigger(StrEnum):
    """What moves the machine from one state to the next."""

    BEGIN = "begin"
    PAGE = "page"
    LISTED = "listed"
    STREAMED = "streamed"
    OPENED = "opened"
    RETRY = "retry"
    START_OVER = "start over"
    WAIT = "wait"
    WOKEN = "woken"
    RESUME = "resume"
    HALT = "halt"


CONTRACTS: Mapping[State, str] = {
    State.NEW: "Nothing is known, and no request was sent.",
    State.LISTING: "A list, its next page or a streamed list was requested. Its answer has the revision to watch from.",
    State.RELISTING: "No revision is usable. The list is requested when the wait is over.",
    State.OPENING: "A revision is known. A watch from it was requested.",
    State.WATCHING: "The watch is open. Events that arrive are live.",
    State.REOPENING: "A revision is known. The watch is requested when the wait is over.",
    State.AWAY: "The resource cannot be listed or watched now. It is requested again when the wait is over.",
    State.HALTED: "Every request was cancelled by `Halt`. Only `Begin` starts again.",
}
"""What holds while the machine is in a state."""

TRANSITIONS: Mapping[State, Mapping[Trigger, State]] = {
    State.NEW: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
    State.LISTING: {
        Trigger.PAGE: State.LISTING,
        Trigger.LISTED: State.OPENING,
        Trigger.STREAMED: State.WATCHING,
        Trigger.RETRY: State.RELISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.RELISTING: {
        Trigger.WOKEN: State.LISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.OPENING: {
        Trigger.OPENED: State.WATCHING,
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.WATCHING: {
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.REOPENING: {
        Trigger.WOKEN: State.OPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.AWAY: {
        Trigger.WOKEN: State.LISTING,
        Trigger.RESUME: State.OPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.HALTED: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
}
"""The protocol. A trigger that a state does not list cannot happen in it."""


def states_markdown() -> str:
    """Return the contracts of the states as a Markdown table with one line for each state."""
    lines = ["| state | contract |", "|---|---|"]
    lines += [f"| `{state}` | {contract} |" for state, contract in CONTRACTS.items()]
    return "\n".join(lines) + "\n"
