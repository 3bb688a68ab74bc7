"""A client that asks for much and reads nothing: it holds the seats of its priority level for as long as it may."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.support.control_plane import ControlPlane
from tests.support.writer import configmap

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
MUCH = "/api/v1/namespaces/kube-system/configmaps"
OBJECTS, OBJECT_BYTES = 8, 900_000  # more than the sockets on the way can hold
READ_AHEAD_BYTES = 4096
HEAD_BYTES = 2048
TIMEOUT_SECONDS = 30.0


@contextlib.contextmanager
def seats_taken(plane: ControlPlane, account: str) -> Iterator[None]:
    """All requests of a service account in `default` are answered with 429: one of them has its only seat.

    That request may take a minute, as all may, but not more.
    """
    with plane.writer() as writer:
        token = writer.service_account_token("default", account)
        for number in range(OBJECTS):
            writer.create(MUCH, configmap(f"much-{number}", OBJECT_BYTES))
        writer.create(f"{FLOW_CONTROL}/prioritylevelconfigurations", _level(account))
        writer.create(f"{FLOW_CONTROL}/flowschemas", _schema(account))
        level = writer.get(f"{FLOW_CONTROL}/prioritylevelconfigurations/{account}")["metadata"]["uid"]
        with contextlib.closing(_seated(plane, token, level)):
            yield
        writer.delete(f"{FLOW_CONTROL}/flowschemas/{account}")


def _level(name: str) -> dict[str, Any]:
    """Without a share of its own, it admits one request at a time."""
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
    """A connection on which an answer has begun, and is not read.

    Its head says by which level it was admitted: what was written just now is in force a moment later.
    """
    while True:
        connection = _ask(plane, token)
        head = connection.recv(HEAD_BYTES)
        if b" 200 " in head[:20] and level.encode() in head:
            return connection
        connection.close()


def _ask(plane: ControlPlane, token: str) -> ssl.SSLSocket:
    parts = urlsplit(plane.url)
    assert parts.hostname
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD_BYTES)
    plain.settimeout(TIMEOUT_SECONDS)
    plain.connect((parts.hostname, parts.port))
    connection = ssl.create_default_context(cafile=plane.ca).wrap_socket(plain, server_hostname=parts.hostname)
    connection.sendall(f"GET {MUCH} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return connection
