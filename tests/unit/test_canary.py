"""The search for what must not be said finds it in every form."""

import base64
from urllib.parse import quote

import pytest

from tests.support.canary import CANARY, found

TOKEN = "eyJhbGciOiJSUzI1NiIs.eyJ/+?-_.c2ln"


@pytest.mark.parametrize("secret", [CANARY, TOKEN])
@pytest.mark.parametrize("around", ["", "a", "ab", "abc", "{'name': '", "ünïcode"])
class TestFound:
    def test_as_it_is(self, secret: str, around: str) -> None:
        assert found(secret, around + secret + around)
        assert found(secret, (around + secret + around).upper())

    def test_in_a_url(self, secret: str, around: str) -> None:
        assert found(secret, quote(around + secret + around, safe=""))
        assert found(secret, "".join(f"%{byte:02x}" for byte in (around + secret).encode()))

    def test_in_base64(self, secret: str, around: str) -> None:
        said = (around + secret + around).encode()
        assert found(secret, f'data: "{base64.b64encode(said).decode()}"')
        assert found(secret, f'data: "{base64.urlsafe_b64encode(said).decode()}"')

    def test_in_hexadecimal(self, secret: str, around: str) -> None:
        assert found(secret, (around + secret).encode().hex())

    def test_not_where_it_is_not(self, secret: str, around: str) -> None:
        assert found(secret, around + secret[:-1] + around) == []
