"""Tokens of OpenID Connect that a kubeconfig has, as the client-go provider `oidc` uses them.

An expired token is not renewed. Many refresh tokens can be spent only once, and the new one would have to be written
back, or kubectl is logged out. watchslo writes no kubeconfig: kubectl renews the token, and watchslo reads it again.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from watchslo.errors import UNDECODABLE

OIDC = "oidc"


class ProviderError(Exception):
    """What is wrong with a provider of tokens, and the remedy, without any token."""


class _Claims(msgspec.Struct):
    exp: float | None = None


def id_token(provider: Mapping[str, Any], now_wall: float) -> tuple[str, float]:
    """Return the token of a user's `auth-provider`, and when it expires (Unix seconds).

    Raises ProviderError.
    """
    name, config = provider.get("name", ""), provider.get("config", {})
    if name != OIDC:
        raise ProviderError(
            f"its auth-provider {name!r} is not known, nor is it to kubectl; use an exec plugin instead"
        )
    token = config.get("id-token", "")
    remedy = "run kubectl with this context, which renews it" if "refresh-token" in config else "log in again"
    if not token:
        raise ProviderError(f"its auth-provider {OIDC} has no id-token; {remedy}")
    expires_wall = _expiry(token)
    if expires_wall <= now_wall:
        raise ProviderError(f"the id-token of its auth-provider {OIDC} has expired; {remedy}")
    return token, expires_wall


def _expiry(token: str) -> float:
    """Return when a JSON Web Token expires (Unix seconds)."""
    try:
        _, claims, _ = token.split(".")
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims)
    except (*UNDECODABLE, binascii.Error):
        raise ProviderError(f"the id-token of its auth-provider {OIDC} is no JSON Web Token; log in again") from None
    return float("inf") if decoded.exp is None else decoded.exp
