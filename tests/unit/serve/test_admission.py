"""Places shared by clients: what a client gets while others want some too."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.serve.admission import Admission, client_at

MOST = 6


class Clients:
    """Clients that take places; `held` are the places, `refused` and `given_up` those that had to leave."""

    def __init__(self) -> None:
        self.admission = Admission[str](MOST)
        self.held: list[str] = []
        self.refused: list[str] = []
        self.given_up: list[str] = []

    def enter(self, *names: str) -> None:
        """Enter places such as `a1`, the first one of client `a`."""
        for name in names:
            leaving = self.admission.enter(name[0], name)
            if leaving == name:
                self.refused.append(name)
                continue
            self.held.append(name)
            if leaving is not None:
                self.held.remove(leaving)
                self.given_up.append(leaving)


def test_client_alone_has_all_places() -> None:
    clients = Clients()
    clients.enter(*(f"a{number}" for number in range(MOST + 2)))
    assert (len(clients.held), clients.refused) == (MOST, ["a6", "a7"])


def test_client_with_most_gives_up_its_newest_places_for_others() -> None:
    clients = Clients()
    clients.enter("a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "b3", "b4")
    assert (clients.given_up, clients.refused) == (["a6", "a5", "a4"], ["b4"])
    clients.enter("c1", "c2", "c3")
    assert Counter(name[0] for name in clients.held) == {"a": 2, "b": 2, "c": 2}


def test_client_without_a_place_is_refused_if_none_has_two() -> None:
    clients = Clients()
    clients.enter(*(f"{name}1" for name in "abcdefg"))
    assert (clients.refused, clients.given_up) == (["g1"], [])


def test_place_that_was_left_is_free() -> None:
    clients = Clients()
    clients.enter(*(f"a{number}" for number in range(MOST)))
    clients.admission.leave("a", "a3")
    clients.admission.leave("a", "a3")
    clients.admission.leave("b", "b1")
    assert len(clients.admission) == MOST - 1
    clients.enter("a9")
    assert clients.refused == []


def test_clients_take_turns() -> None:
    clients = Clients()
    clients.enter("a1", "a2", "a3", "b1", "c1", "c2")
    taken = []
    while clients.admission:
        taken.append(clients.admission.take(clients.admission.turns[0]))
    assert taken == ["a1", "b1", "c1", "a2", "c2", "a3"]


@given(st.lists(st.sampled_from("abcde"), max_size=80))
def test_each_client_has_its_share_whatever_others_ask_for(wanted: list[str]) -> None:
    clients = Clients()
    clients.enter(*(f"{client}{number}" for number, client in enumerate(wanted)))
    held, asked = Counter(name[0] for name in clients.held), Counter(wanted)
    assert len(clients.admission) == sum(held.values()) == min(MOST, len(wanted))
    for client, count in asked.items():
        assert held[client] >= min(count, MOST // len(asked))


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.9", "10.0.0.9"),
        ("::ffff:10.0.0.9", "10.0.0.9"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8::2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_client_at_is_an_ipv4_address_or_an_ipv6_network(address: str, client: str) -> None:
    assert client_at(address) == client
