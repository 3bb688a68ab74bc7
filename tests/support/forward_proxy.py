"""A forward proxy, as companies put between their networks: it opens tunnels for HTTP's CONNECT."""

import contextlib
import socket
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Self

HOST = "127.0.0.1"
PIECE_BYTES = 2**16


class ForwardProxy(ThreadingTCPServer):
    """Tunnels every connection to the wanted port of this machine; `wanted` are the targets as clients name them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Tunnel)
        self.url = f"http://{HOST}:{self.server_address[1]}"
        self.wanted: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Tunnel(StreamRequestHandler):
    """One connection of a client."""

    def handle(self) -> None:
        method, target, _ = self.rfile.readline().decode().split(" ", 2)
        while self.rfile.readline().strip():  # the headers
            pass
        assert isinstance(self.server, ForwardProxy)
        self.server.wanted.append(target)
        if method != "CONNECT":
            self.wfile.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection((HOST, int(target.rpartition(":")[2]))) as behind:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pass_on, args=(behind, self.connection), daemon=True)
            back.start()
            _pass_on(self.connection, behind)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on all bytes until one of the sides ends; then end both, because TLS has its own end."""
    with contextlib.suppress(OSError):
        while data := source.recv(PIECE_BYTES):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
