"""What a machine has to say to its driver after one input."""

from dataclasses import dataclass, field

from watchslo.watch.messages import Fact, ListRequest, Note, Output, Start, WatchRequest


@dataclass(slots=True)
class Outbox:
    """The outputs of the current input, the number of the last request, and when it was sent."""

    outputs: list[Output] = field(default_factory=list)
    op: int = 0
    requested: float = float("-inf")

    def request(self, request: ListRequest | WatchRequest, now: float) -> int:
        """Send a request, and return its number."""
        self.op += 1
        self.requested = now
        self.outputs.append(Start(self.op, request))
        return self.op

    def put(self, output: Output) -> None:
        self.outputs.append(output)

    def note(self, *facts: Fact) -> None:
        self.outputs.extend(map(Note, facts))

    def take(self) -> list[Output]:
        """Return the outputs in their order, and begin a new list."""
        outputs, self.outputs = self.outputs, []
        return outputs
