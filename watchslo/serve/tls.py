"""The server's certificate, which is reloaded when its files change."""

import hashlib
import ssl
from pathlib import Path

from watchslo.bounded import LONGEST_CREDENTIAL_BYTES, read_file
from watchslo.config.sections.server import TlsConfig
from watchslo.errors import ServeError


class Certificate:
    """The certificate and key in force; `context` is for new connections.

    The constructor and `refresh` raise ServeError if the files do not hold a matching pair.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._files = Path(config.cert_file), Path(config.key_file)
        self._digest = self._read()
        self.context = self._make()

    def refresh(self) -> bool:
        """Reload the files and return True if they changed; raises ServeError once for each unusable content."""
        digest = self._read()
        if digest == self._digest:
            return False
        self._digest = digest
        self.context = self._make()
        return True

    def _read(self) -> bytes:
        """Return a digest of the contents: mounted Secrets are replaced by links, so times do not show changes."""
        digest = hashlib.sha256()
        for key, path in zip(("certFile", "keyFile"), self._files, strict=True):
            try:
                digest.update(hashlib.sha256(read_file(path, LONGEST_CREDENTIAL_BYTES)).digest())
            except OSError as error:
                reason = error.strerror or str(error)
                why = f"{reason[0].lower()}{reason[1:]}; put a readable file there"
                raise ServeError(f"server.tls.{key}: {path}: {why}") from None
        return digest.digest()

    def _make(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(certificate, key, password=lambda: b"")  # never prompt on the terminal
        except (OSError, ssl.SSLError):
            raise ServeError(
                f"server.tls: {certificate} is not a certificate for the key {key}; "
                "put a matching pair in PEM form there"
            ) from None
        return context
