"""The server's certificate, and how it is replaced."""

import ssl
from pathlib import Path

import pytest

from tests.support.certs import Authority, Pair
from watchslo.config.sections.server import TlsConfig
from watchslo.errors import ServeError
from watchslo.serve.tls import Certificate


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "tls.crt", tmp_path / "tls.key")


def config(pair: Pair) -> TlsConfig:
    return TlsConfig.model_validate({"certFile": str(pair.certificate), "keyFile": str(pair.key)})


@pytest.fixture
def certificate(authority: Authority, pair: Pair) -> Certificate:
    authority.server("first").replace(pair)
    return Certificate(config(pair))


def test_context_refuses_tls_below_1_2(certificate: Certificate) -> None:
    assert certificate.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert certificate.context.verify_mode is ssl.CERT_NONE


def test_refresh_with_unchanged_files_returns_false(certificate: Certificate, pair: Pair) -> None:
    context = certificate.context
    pair.certificate.touch()
    assert not certificate.refresh()
    assert certificate.context is context


def test_refresh_with_new_pair_replaces_context(certificate: Certificate, authority: Authority, pair: Pair) -> None:
    context = certificate.context
    authority.server("second").replace(pair)
    assert certificate.refresh()
    assert certificate.context is not context
    assert not certificate.refresh()


def test_refresh_with_mismatched_pair_raises_once(certificate: Certificate, authority: Authority, pair: Pair) -> None:
    context, new = certificate.context, authority.server("third")
    new.certificate.replace(pair.certificate)
    with pytest.raises(ServeError) as refused:
        certificate.refresh()
    assert str(refused.value) == (
        f"server.tls: {pair.certificate} is not a certificate for the key {pair.key}; "
        "put a matching pair in PEM form there"
    )
    assert certificate.context is context
    assert not certificate.refresh()
    new.key.replace(pair.key)
    assert certificate.refresh()


def test_missing_file_is_named_in_the_error(certificate: Certificate, pair: Pair) -> None:
    pair.key.unlink()
    for _ in range(2):
        with pytest.raises(ServeError) as refused:
            certificate.refresh()
        assert str(refused.value) == (
            f"server.tls.keyFile: {pair.key}: no such file or directory; put a readable file there"
        )


def test_file_without_end_is_refused(pair: Pair) -> None:
    pair.certificate.symlink_to("/dev/zero")
    with pytest.raises(ServeError, match=r"longer than 8 MiB; put a readable file there$"):
        Certificate(config(pair))


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\n"])
def test_certificate_without_valid_pair_raises(certificate: Certificate, pair: Pair, content: str) -> None:
    pair.certificate.write_text(content)
    with pytest.raises(ServeError, match=f"^server.tls: {pair.certificate} is not a certificate for the key"):
        Certificate(config(pair))
    assert certificate.context
