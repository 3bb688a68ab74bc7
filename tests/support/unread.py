"""Requests whose answers are not read, so that the apiserver cannot send them whole."""

import socket
import ssl
from urllib.parse import urlsplit

from tests.support.control_plane import ControlPlane
from tests.support.process import PATIENCE_SECONDS

READ_AHEAD_BYTES = 4096


def unread_get(plane: ControlPlane, path: str, token: str) -> ssl.SSLSocket:
    """Send a GET and return its connection, which takes in few bytes until the caller reads them."""
    parts = urlsplit(plane.url)
    assert parts.hostname
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD_BYTES)
    plain.settimeout(PATIENCE_SECONDS)
    plain.connect((parts.hostname, parts.port))
    connection = ssl.create_default_context(cafile=plane.ca).wrap_socket(plain, server_hostname=parts.hostname)
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode())
    return connection
