"""Transcripts of the machine: what happens to it, and what it does about that, as text.

A transcript begins with `# ` and a sentence. Its second line says where it begins: a strategy, a state of `BEGINNINGS`
unless the machine is new, and `inventory` if it keeps one. The outcome of an input is `outputs | changes`.

An input begins with the seconds since the last one, if any; outputs count seconds from the start. `look` asks for how
long the watch has been down, and `restart` begins a new machine at the same apiserver. Events are `+101`, `~101` or
`-101` (added, modified, deleted), with `/uid` or `@created`. An event of a Table has `|name` of its row, `|-` for none,
or `|null`. `b101` is a bookmark, `end101` that at the end of a list, and `!410` an error. A failure is its reason, with
`/status/retry-after/token` if it has them.
"""

from dataclasses import fields
from enum import StrEnum

from tests.unit.watch.protocol import START_SECONDS, Run, bookmark, change
from watchslo.watch.decode import Added, ApiStatus, Deleted, Details, Error, Frame, Modified
from watchslo.watch.failure import ENDED, Failure, Reason, because
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import (
    Batch,
    Begin,
    Cancel,
    Closed,
    Emit,
    Fact,
    Halt,
    Hasten,
    Input,
    Note,
    Opened,
    Output,
    Reopen,
    Reset,
    Sent,
    Start,
    WakeAt,
    WatchQueued,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import REPLAY, STRATEGIES, StreamedLists
from watchslo.watch.transitions import State

BEGINNINGS = {
    "listing": ("begin",),
    "streaming": ("begin", "opened"),
    "opening": ("begin", "list 100", "sent"),
    "watching": ("begin", "list 100", "sent", "opened"),
    "between pages": ("begin", "list 100 next=two a=1 b=2", "opened"),
    "watching a and b": ("begin", "list 100 a=7 b=7", "sent", "opened"),
}
KINDS: dict[str, type[Added | Modified | Deleted]] = {"+": Added, "~": Modified, "-": Deleted}
ROWS = {"": b"", "-": b"[]", "null": b"null"}
SIGNS = {"ADDED": "+", "MODIFIED": "~", "DELETED": "-"}
COMMANDS: dict[str, type[Halt | Reopen | Hasten | Reset]] = {
    "halt": Halt,
    "reopen": Reopen,
    "hasten": Hasten,
    "reset": Reset,
}
WATCH_SECONDS = 450  # for which watches ask, as random numbers are 0.5


class Transcript:
    """A machine that is driven by text: `step` takes an input, and returns what the machine did."""

    def __init__(self, beginning: str) -> None:
        strategy, *state = beginning.removesuffix(", inventory").split(", ")
        self._strategy = {**STRATEGIES, REPLAY.name: REPLAY}[strategy]
        self._inventory = Inventory() if beginning.endswith(", inventory") else None
        self._streaming = StreamedLists()
        self._restart()
        for name in state:
            for text in BEGINNINGS[name]:
                self.step(text)

    def _restart(self) -> None:
        self._run = Run(self._strategy, inventory=self._inventory, streaming=self._streaming)

    def step(self, text: str) -> str:
        before, (first, *rest) = self._seen(), text.split()
        if is_delayed := first.startswith("+"):
            self._run.now += float(first)
        outputs = self._take(rest if is_delayed else [first, *rest])
        changes = [now for was, now in zip(before, self._seen(), strict=True) if was != now]
        said = self._down() if text.endswith("look") else "; ".join(map(self._shown, outputs)) or "nothing"
        return f"{said} | {', '.join(changes)}" if changes else said

    def _take(self, words: list[str]) -> list[Output]:
        run = self._run
        match words:
            case ["restart"]:
                self._restart()
                return []
            case ["inherit", revision]:
                run.machine.inherit(int(revision), run.now)
                return []
            case ["look"]:
                return []
            case ["list", revision, *options] if revision not in ("fails", "ends"):
                token, objects = None, {}
                for name, value in (option.split("=") for option in options):
                    if name == "next":
                        token = value
                    else:
                        objects[name] = int(value)
                return run.page(None if revision == "?" else int(revision), token, **objects)
            case ["brings", *events]:
                counts = {name: int(value) for name, value in (one.split("=") for one in events if "=" in one)}
                return run.bring(*(_frame(event) for event in events if "=" not in event), **counts)
            case _:
                return run.feed(self._input(words))

    def _input(self, words: list[str]) -> Input:
        run = self._run
        simple: dict[str, Input] = {
            "begin": Begin(),
            "wake": Woken(),
            "sent": Sent(run.op),
            "opened": Opened(run.watch),
        }
        match words:
            case [name] if name in simple:
                return simple[name]
            case [("list" | "watch") as kind, _, *failure]:
                reason = _failure(failure[0]) if failure else ENDED
                return Closed(run.list if kind == "list" else run.watch, reason)
            case [command, *reasons]:
                return COMMANDS[command](*map(Reason, reasons))
        raise AssertionError(words)

    def _seen(self) -> tuple[str, ...]:
        """What others may read of the machine."""
        machine, kept = self._run.machine, self._inventory
        is_parallel = machine.is_listing and machine.state not in (State.LISTING, State.RELISTING)
        return (
            f"{machine.state} and listing" if is_parallel else machine.state,
            "no revision" if machine.revision is None else f"at {machine.revision}",
            "no failure" if machine.failure is None else f"blames {_text(machine.failure)}",
            "" if kept is None else f"{len(kept)} objects",
            "" if kept is None else f"holds {kept.held} events",
            "" if kept is None else ("synced" if kept.synced else "not synced"),
        )

    def _down(self) -> str:
        seconds = self._run.machine.down.seconds(self._run.now)
        return "not down" if seconds is None else f"down for {_text(seconds)} s"

    def _shown(self, output: Output) -> str:
        match output:
            case Start(op, WatchRequest(revision, timeout, bookmarks)):
                assert (timeout, bookmarks) == (WATCH_SECONDS, True)
                return f"watch {op} from {'the start' if revision is None else revision}"
            case Start(op, request):
                return " ".join([f"list {op}", *_options(request)])
            case Cancel(op):
                return f"cancel {op}"
            case WakeAt(time):
                return f"wake at {_text(time - START_SECONDS)}"
            case Emit(batch):
                assert batch.received == self._run.received
                return f"emit {_events(batch)}"
            case Note(fact):
                return _fact(fact)


def _frame(text: str) -> Frame:
    if text.startswith("b"):
        return bookmark(text.removeprefix("b"))
    if text.startswith("end"):
        return bookmark(text.removeprefix("end"), end="true")
    if text.startswith("!"):
        code, _, retry = text.removeprefix("!").partition("/")
        return Error(
            object=ApiStatus(code=int(code), details=Details(retry_after_seconds=int(retry) if retry else None))
        )
    rest, _, row = text[1:].partition("|")
    rest, _, uid = rest.partition("/")
    revision, _, created = rest.partition("@")
    rows = ROWS.get(row, b'[{"cells":["%b","5s"]}]' % row.encode())
    return change(KINDS[text[0]], revision, created or None, uid or None, rows)


def _failure(text: str) -> Failure:
    reason, status, retry, token = (text.split("/") + [""] * 3)[:4]
    return because(
        Reason(reason),
        status=int(status) if status else None,
        retry_after=float(retry) if retry else None,
        continue_token=token or None,
    )


def _events(batch: Batch) -> str:
    columns = zip(batch.types, batch.revisions, batch.created, strict=True)
    return " ".join(f"{SIGNS[kind]}{revision}" + (f"@{at}" if at else "") for kind, revision, at in columns)


def _fact(fact: Fact) -> str:
    if isinstance(fact, WatchQueued):
        return f"queued from {_text(fact.since - START_SECONDS)} to {_text(fact.until - START_SECONDS)}"
    name = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(fact).__name__).strip()
    values = [(field.name, _text(getattr(fact, field.name))) for field in fields(fact)]
    return " ".join([name, *(value for _, value in values[:1]), *(f"{field}={value}" for field, value in values[1:])])


def _options(request: object) -> list[str]:
    values = [(field.name, getattr(request, field.name), field.default) for field in fields(request)]  # type: ignore[arg-type]
    return [name if value is True else f"{name}={value}" for name, value, default in values if value != default]


def _text(value: object) -> str:
    match value:
        case Failure():
            parts = [value.status, value.retry_after, value.continue_token]
            return "/".join(["" if one is None else _text(one) for one in (value.reason, *parts)]).rstrip("/")
        case StrEnum():
            return value.value
        case float():
            return f"{value:.4f}".rstrip("0").rstrip(".")
    return str(value)
