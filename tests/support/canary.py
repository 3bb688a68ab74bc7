"""A word that stands in all that a cluster holds, and is searched for in all that watchslo says."""

import base64
from urllib.parse import unquote_plus

CANARY = "canary4c1d2e"
"""May be the name of anything in Kubernetes."""


def found(secret: str, text: str) -> list[str]:
    """Where a text holds a secret, in whatever case, as it is or encoded for a URL, in Base64 or in hexadecimal."""
    forms = {"plain": secret, "hexadecimal": secret.encode().hex()}
    lowered = {"": text.lower(), "URL": unquote_plus(text).lower()}
    places = [
        f"{around} {form}: …{told[max(0, at - 60) : at + 60]}…".lstrip()
        for form, word in forms.items()
        for around, told in lowered.items()
        if (at := told.find(word.lower())) >= 0
    ]
    return places + [f"Base64: {part}" for part in _in_base64(secret) if part in text]


def _in_base64(secret: str) -> list[str]:
    """What is the same of a secret in Base64 whatever stands before it and after it: it may begin at any of three."""
    parts = []
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + secret.encode()).decode().rstrip("=")
        parts.append(encoded[(before * 8 + 5) // 6 : len(encoded) - (1 if (before + len(secret)) % 3 else 0)])
    return [*parts, *(part.replace("+", "-").replace("/", "_") for part in parts if set(part) & set("+/"))]
