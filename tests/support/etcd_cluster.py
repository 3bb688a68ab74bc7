"""Etcd with several members, of which one leads: each can be killed, stopped or made the leader.

    with EtcdCluster(folder, assets.etcd) as cluster, ControlPlane(folder, assets.kube_apiserver, cluster) as plane:
        cluster.lead(cluster.followers()[0])
        cluster.leader().process.signal(signal.SIGSTOP)

`cluster.url` names all members, as an apiserver of an external etcd does; `plane.add(member.url)` makes an apiserver
that asks one member only, as one next to its own etcd does.
"""

from pathlib import Path

from tests.support.control_plane import Etcd, Port
from tests.support.process import Started, eventually


class EtcdCluster(Started):
    """`count` members; each is an `Etcd`."""

    def __init__(self, folder: Path, program: Path, count: int = 3) -> None:
        peers = {f"etcd-{number}": Port() for number in range(count)}
        self.members = [Etcd(folder, program, name, peers) for name in peers]
        self.url = ",".join(member.url for member in self.members)

    def start(self) -> None:
        """Start all members and wait until each of them answers: alone, none does."""
        for member in self.members:
            member.process.start()
        for member in self.members:
            member.process.until(member.is_healthy, "healthy")

    def close(self) -> None:
        for member in self.members:
            member.close()

    def leader(self) -> Etcd:
        """Wait until a running member leads, and return it."""
        return eventually(self._leader, "etcd has a leader")

    def followers(self) -> list[Etcd]:
        """Return the other members."""
        leader = self.leader()
        return [member for member in self.members if member is not leader]

    def lead(self, member: Etcd) -> None:
        """Make a member the leader, and wait until it is."""
        while (leader := self.leader()) is not member:
            leader.transfer_leadership(member)

    def _leader(self) -> Etcd | None:
        return next((member for member in self.members if member.is_leader()), None)
