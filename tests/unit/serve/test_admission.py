"""Places shared by clients: `tests/golden/places.txt` has what a client gets of six while others want some too."""

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import GOLDEN
from tests.support.transcripts import calls, replay, shown
from watchslo.serve.admission import Admission, client_at

MOST = 6


class Clients:
    """Clients that take places; `held` are these, such as `a1`, the first one of client `a`."""

    def __init__(self) -> None:
        self.admission = Admission[str](MOST)
        self.held: list[str] = []

    def enter(self, *names: str) -> str:
        """Enter the places, and return which of them were refused, and which others had to leave."""
        refused, left = [], []
        for name in names:
            leaving = self.admission.enter(name[0], name)
            if leaving == name:
                refused.append(name)
                continue
            self.held.append(name)
            if leaving is not None:
                self.held.remove(leaving)
                left.append(leaving)
        return f"{len(self.held)} held, refused: {shown(refused)}, left: {shown(left)}"

    def leave(self, name: str) -> int:
        """Leave a place, and return how many are taken."""
        self.admission.leave(name[0], name)
        self.held = [one for one in self.held if one != name]
        return len(self.admission)

    def take_all(self) -> str:
        """Take places in turns until there is none."""
        taken = []
        while self.admission:
            taken.append(self.admission.take(self.admission.turns[0]))
        return shown(taken)


def test_places_are_shared_as_the_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("places.txt", replay((GOLDEN / "places.txt").read_text(), lambda _: calls(Clients())))


@given(st.lists(st.sampled_from("abcde"), max_size=80))
def test_each_client_has_its_share_whatever_others_ask_for(wanted: list[str]) -> None:
    clients = Clients()
    clients.enter(*(f"{client}{number}" for number, client in enumerate(wanted)))
    held, asked = Counter(name[0] for name in clients.held), Counter(wanted)
    assert len(clients.admission) == sum(held.values()) == min(MOST, len(wanted))
    for client, count in asked.items():
        assert held[client] >= min(count, MOST // len(asked))


def test_client_without_an_address_has_no_name() -> None:
    assert client_at("") == ""
