"""A word that is put into every object of a cluster and searched for in all output of watchslo."""

import base64
from urllib.parse import unquote_plus

CANARY = "canary4c1d2e"
"""A valid name of any Kubernetes object."""


def found(secret: str, text: str) -> list[str]:
    """Return where a text holds a secret: in any case, plain, URL-encoded, in Base64 or in hexadecimal."""
    forms = {"plain": secret, "hexadecimal": secret.encode().hex()}
    lowered = {"": text.lower(), "URL": unquote_plus(text).lower()}
    places = [
        f"{around} {form}: …{form_of_text[max(0, at - 60) : at + 60]}…".lstrip()
        for form, word in forms.items()
        for around, form_of_text in lowered.items()
        if (at := form_of_text.find(word.lower())) >= 0
    ]
    return places + [f"Base64: {part}" for part in _in_base64(secret) if part in text]


def _in_base64(secret: str) -> list[str]:
    """Return the Base64 texts that any text with the secret contains, one for each of the three alignments."""
    parts = []
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + secret.encode()).decode().rstrip("=")
        parts.append(encoded[(before * 8 + 5) // 6 : len(encoded) - (1 if (before + len(secret)) % 3 else 0)])
    return [*parts, *(part.replace("+", "-").replace("/", "_") for part in parts if set(part) & set("+/"))]
