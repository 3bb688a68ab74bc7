"""Service account tokens of any lifetime; the apiserver itself issues none under ten minutes."""

import base64
import json
import subprocess
import time
from typing import Any

from tests.support.control_plane import ControlPlane

LEEWAY_SECONDS = 60.0  # the apiserver accepts a token for longer than it says (go-jose: DefaultLeeway)
AUDIENCE = "https://kubernetes.default.svc"
HALF_BYTES = 32  # of an ES256 signature


def mint(plane: ControlPlane, account: str, lives: float) -> str:
    """Return a token of a service account in `default` that the apiserver accepts for the next `lives` seconds."""
    with plane.writer() as writer:
        uid = writer.get(f"/api/v1/namespaces/default/serviceaccounts/{account}")["metadata"]["uid"]
    now = time.time()
    claims = {
        "iss": AUDIENCE,
        "aud": [AUDIENCE],
        "sub": f"system:serviceaccount:default:{account}",
        "iat": int(now - 2 * LEEWAY_SECONDS),
        "nbf": int(now - 2 * LEEWAY_SECONDS),
        "exp": int(now + lives - LEEWAY_SECONDS),
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": account, "uid": uid}},
    }
    signed = f"{_encoded({'alg': 'ES256', 'typ': 'JWT'})}.{_encoded(claims)}"
    return f"{signed}.{_base64(_sign(plane, signed.encode()))}"


def _sign(plane: ControlPlane, data: bytes) -> bytes:
    key = plane.folder / "certs" / "service-accounts.key"
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    der = subprocess.run(command, input=data, capture_output=True, check=True).stdout
    first_size = der[3]  # SEQUENCE { INTEGER r, INTEGER s }, all of them shorter than 128 bytes
    first, second = der[4 : 4 + first_size], der[6 + first_size :]
    return b"".join(number.lstrip(b"\0").rjust(HALF_BYTES, b"\0") for number in (first, second))


def _encoded(document: dict[str, Any]) -> str:
    return _base64(json.dumps(document).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
