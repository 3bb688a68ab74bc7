"""The name of the cluster where none is configured, so that pages of different clusters differ."""

import time

import msgspec
import structlog

from watchslo.kube.client import Client
from watchslo.kube.decoding import decode_answer
from watchslo.kube.representation import Representation
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.watch.failure import Failure
from watchslo.watch.missing_right import MissingRight

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"  # every cluster has it, and its uid never changes
SHOWN_DIGITS = 8


class _NamespaceMetadata(msgspec.Struct):
    uid: str


class _IdentifiedNamespace(msgspec.Struct):
    metadata: _NamespaceMetadata


class ClusterName:
    """Owns the name: the configured one, else the context of the kubeconfig, else the first digits of a uid.

    `shown` is None until the uid is known, and without the right to read it. No failure of this is a problem.
    """

    def __init__(self, configured: str | None, context: str | None) -> None:
        self.shown = configured or context
        self._given_up = False
        self._right = MissingRight()

    async def find(self, client: Client) -> None:
        """Read the uid if it is needed; once it is clear that it may not be read, never again."""
        if self.shown or self._given_up:
            return
        answer = await with_time_limit(client.document(KUBE_SYSTEM, Representation.METADATA.accept_watch))
        if not isinstance(answer, Failure):
            self.shown = _uid_in(answer)[:SHOWN_DIGITS] or None
            self._given_up = self.shown is None
        elif self._right.is_proven(answer, time.monotonic()):
            structlog.get_logger().debug("cluster_unnamed", reason=answer.reason.value)
            self._given_up = True


def _uid_in(body: bytes) -> str:
    """Return the uid, or nothing if the answer has none that can be shown."""
    found = decode_answer(body, _IdentifiedNamespace)
    uid = "" if isinstance(found, Failure) else found.metadata.uid
    return uid if uid.isascii() and uid.isprintable() else ""
