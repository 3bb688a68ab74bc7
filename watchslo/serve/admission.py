"""Places that clients share: while all are taken, the client with the most gives one up for a client with fewer. Pure.

So a client may use everything while it is alone, and no client can lock out another. This is max-min fairness.
"""

from collections import deque
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Generic, TypeVar

NETWORK_BITS = 64  # of an IPv6 address: a host may take any address in a network of this size

T = TypeVar("T")


@lru_cache(maxsize=4096)
def client_at(address: str) -> str:
    """Return the client at an IP address: the IPv4 address, or the network of the IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Network((int(parsed), NETWORK_BITS), strict=False))


def gives_way(greediest: int, fewer: int) -> bool:
    """Return whether a client gives up a place for another client, by the numbers of their places.

    A difference of one is left: otherwise both would take a place from each other without end.
    """
    return greediest > fewer + 1


class Admission(Generic[T]):
    """The places of one kind, by client; the places of a client are in the order in which it took them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[str, deque[T]] = {}  # in the order in which the clients have their turns

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def enter(self, client: str, entry: T) -> T | None:
        """Give a place to `entry`; return what has to leave for it, which is `entry` if its client has its share."""
        places = self._held.get(client, deque())
        leaving = None
        if len(self) >= self._most:
            greediest = max(self._held.values(), key=len)
            if not gives_way(len(greediest), len(places)):
                return entry
            leaving = greediest.pop()
        places.append(entry)
        self._held[client] = places
        return leaving

    def leave(self, client: str, entry: T) -> None:
        """Give back a place; one that was already given up is ignored."""
        places = self._held.get(client, deque())
        if entry in places:
            places.remove(entry)
        if not places:
            self._held.pop(client, None)

    @property
    def turns(self) -> tuple[str, ...]:
        """The clients in the order of their turns."""
        return tuple(self._held)

    def first(self, client: str) -> T:
        """Return the oldest of a client."""
        return self._held[client][0]

    def take(self, client: str) -> T:
        """Remove and return the oldest of a client; its next turn is after those of all others."""
        places = self._held.pop(client)
        entry = places.popleft()
        if places:
            self._held[client] = places
        return entry
