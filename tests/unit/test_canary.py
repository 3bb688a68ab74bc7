"""The search for leaked secrets finds them in every encoding."""

import base64
from urllib.parse import quote

import pytest

from tests.support.canary import CANARY, found

TOKEN = "eyJhbGciOiJSUzI1NiIs.eyJ/+?-_.c2ln"


@pytest.mark.parametrize("secret", [CANARY, TOKEN])
@pytest.mark.parametrize("around", ["", "a", "ab", "abc", "{'name': '", "ünïcode"])
class TestFound:
    def test_secret_is_found_in_plain_text(self, secret: str, around: str) -> None:
        assert found(secret, around + secret + around)
        assert found(secret, (around + secret + around).upper())

    def test_secret_is_found_in_a_url(self, secret: str, around: str) -> None:
        assert found(secret, quote(around + secret + around, safe=""))
        assert found(secret, "".join(f"%{byte:02x}" for byte in (around + secret).encode()))

    def test_secret_is_found_in_base64(self, secret: str, around: str) -> None:
        text = (around + secret + around).encode()
        assert found(secret, f'data: "{base64.b64encode(text).decode()}"')
        assert found(secret, f'data: "{base64.urlsafe_b64encode(text).decode()}"')

    def test_secret_is_found_in_hexadecimal(self, secret: str, around: str) -> None:
        assert found(secret, (around + secret).encode().hex())

    def test_incomplete_secret_is_not_found(self, secret: str, around: str) -> None:
        assert found(secret, around + secret[:-1] + around) == []
