"""A throw-away certificate authority made with the `openssl` command."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DAYS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path

    def replace(self, other: "Pair") -> None:
        """Replace the files of another pair, each atomically, as a mounted Secret does."""
        self.key.replace(other.key)
        self.certificate.replace(other.certificate)


class Authority:
    """Issues certificates for servers and clients; `ca` is the file that verifies them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._pair = self._self_signed()
        self.ca = self._pair.certificate

    def server(self, name: str, hosts: tuple[str, ...] = ("localhost",), ips: Sequence[str] = ("127.0.0.1",)) -> Pair:
        """Issue a server certificate for `hosts` and `ips`."""
        alternatives = ",".join([*(f"IP:{ip}" for ip in ips), *(f"DNS:{host}" for host in hosts)])
        return self._issue(name, f"/CN={name}", f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth\n")

    def client(self, user: str, group: str = "watchslo:tests", days: int = DAYS) -> Pair:
        """Issue a client certificate for `user` in `group`; one of -1 days expired yesterday."""
        return self._issue(f"client-{user}", f"/O={group}/CN={user}", "extendedKeyUsage=clientAuth\n", days)

    def key(self, name: str) -> Path:
        """Make a private key, for example to sign service account tokens."""
        path = self._folder / f"{name}.key"
        _openssl("ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out", path)
        return path

    def _self_signed(self) -> Pair:
        key, path = self.key("ca"), self._folder / "ca.crt"
        usage = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        _openssl("req", "-x509", "-key", key, "-days", DAYS, "-subj", "/CN=watchslo tests", *usage, "-out", path)
        return Pair(path, key)

    def _issue(self, name: str, subject: str, extensions: str, days: int = DAYS) -> Pair:
        key, path = self.key(name), self._folder / f"{name}.crt"
        request, extra = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extra.write_text(extensions)
        _openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        signer = ("-CA", self._pair.certificate, "-CAkey", self._pair.key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *signer, "-days", days, "-extfile", extra, "-out", path)
        return Pair(path, key)


def _openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
