"""Tokens of service accounts that have expired: an apiserver issues none for less than ten minutes."""

import json
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

HOUR = 3_600
COORDINATE_BYTES = 32  # of ES256: RFC 7518, section 3.4


def expired(token: str, key: Path) -> str:
    """Return the same token, but issued a day ago for an hour, signed by the key of the apiserver (P-256)."""
    header, payload, _ = token.split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=="))
    issued = claims["iat"] - 24 * HOUR
    claims.update(iat=issued, nbf=issued, exp=issued + HOUR)
    signed = f"{header}.{_base64(json.dumps(claims).encode())}"
    command: list[str | Path] = ["openssl", "dgst", "-sha256", "-sign", key]
    done = subprocess.run(command, input=signed.encode(), capture_output=True, check=True)
    return f"{signed}.{_base64(_joined(done.stdout))}"


def _joined(der: bytes) -> bytes:
    """Return r and s of a signature of OpenSSL (a sequence of two integers) as JWS has them: RFC 7518, section 3.4."""
    first = 4 + der[3]
    integers = der[4:first], der[first + 2 :]
    return b"".join(int.from_bytes(one).to_bytes(COORDINATE_BYTES) for one in integers)


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
