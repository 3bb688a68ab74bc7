"""A client that requests much and reads nothing: it occupies the only seat of its priority level."""

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.unread import unread_get
from tests.support.writer import configmap

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
LARGE_LIST = "/api/v1/namespaces/kube-system/configmaps"
OBJECTS, OBJECT_BYTES = 8, 900_000  # more than the sockets in between can hold
HEAD_BYTES = 2048


@contextlib.contextmanager
def seats_taken(plane: ControlPlane, account: str) -> Iterator[None]:
    """Make the apiserver answer 429 to all requests of a service account in `default`.

    One request of the account occupies its only seat. The apiserver ends that request, as any other, after a minute.
    """
    with plane.writer() as writer:
        token = writer.service_account_token("default", account)
        for number in range(OBJECTS):
            writer.create(LARGE_LIST, configmap(f"large-{number}", OBJECT_BYTES))
        writer.create(f"{FLOW_CONTROL}/prioritylevelconfigurations", _level(account))
        writer.create(f"{FLOW_CONTROL}/flowschemas", _schema(account))
        level = writer.get(f"{FLOW_CONTROL}/prioritylevelconfigurations/{account}")["metadata"]["uid"]
        with contextlib.closing(_seated(plane, token, level)):
            yield
        writer.delete(f"{FLOW_CONTROL}/flowschemas/{account}")


def _level(name: str) -> dict[str, Any]:
    """A priority level without shares, which admits one request at a time."""
    limited = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


def _schema(name: str) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "default"}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    spec = {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 2,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [subject], "resourceRules": [everything]}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def _seated(plane: ControlPlane, token: str, level: str) -> ssl.SSLSocket:
    """Return a connection with an answer that has begun and is not read.

    The head of the answer names the level that admitted the request: a new level takes a moment to be in force.
    """
    while True:
        connection = unread_get(plane, LARGE_LIST, token)
        head = connection.recv(HEAD_BYTES)
        if b" 200 " in head[:20] and level.encode() in head:
            return connection
        connection.close()
