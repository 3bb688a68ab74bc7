"""The server's certificate: shown to every new connection, and replaced when its files are."""

import hashlib
import ssl
from pathlib import Path

from watchslo.config import TlsConfig
from watchslo.errors import ServeError


class Certificate:
    """The pair in force; `context` is for the next connection.

    Raises ServeError, here and in `refresh`, where the files hold no pair.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._files = Path(config.cert_file), Path(config.key_file)
        self._digest = self._read()
        self.context = self._make()

    def refresh(self) -> bool:
        """Takes what the files hold now, if it is another pair; one that cannot be used is refused once."""
        digest = self._read()
        if digest == self._digest:
            return False
        self._digest = digest
        self.context = self._make()
        return True

    def _read(self) -> bytes:
        """Tells contents apart: mounted Secrets are replaced by links, whose times say little."""
        digest = hashlib.sha256()
        for key, path in zip(("certFile", "keyFile"), self._files, strict=True):
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ServeError(f"server.tls.{key}: {path}: {reason}; put a readable file there") from None
        return digest.digest()

    def _make(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(certificate, key, password=lambda: b"")  # never ask the terminal for one
        except (OSError, ssl.SSLError):
            raise ServeError(
                f"server.tls: {certificate} is no certificate for the key {key}; put a matching pair in PEM form there"
            ) from None
        return context
