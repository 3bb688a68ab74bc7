"""Failures that a server on loopback cannot cause; the others are in test_client.py and test_tls.py."""

import errno
from types import SimpleNamespace

import pytest
from yarl import URL

from watchslo.kube.network_failure import FAULTS, fault, redirect_target
from watchslo.watch.failure import CloseClass, Phase, Reason


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        (
            OSError(errno.EHOSTUNREACH, "No route to host"),
            Reason.UNREACHABLE,
            "The connection to https://a failed: [Errno 113] No route to host.",
        ),
        (
            OSError(errno.ETIMEDOUT, "Connection timed out"),  # by TCP_USER_TIMEOUT
            Reason.TIMEOUT,
            "No answer from https://a in time.",
        ),
        (OSError(), Reason.UNREACHABLE, "The connection to https://a failed: OSError."),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), Reason.RESET, "The connection to https://a was reset."),
    ],
)
def test_fault_of_an_os_error(error: OSError, reason: Reason, message: str) -> None:
    assert isinstance(error, FAULTS)
    failure = fault(error, "https://a", Phase.STREAM)
    assert (failure.reason, failure.closed, failure.message) == (reason, CloseClass.NETWORK, message)


@pytest.mark.parametrize(
    "error", [UnicodeError("label empty or too long"), OverflowError("getsockaddrarg: port must be 0-65535.")]
)
def test_fault_of_an_address_that_no_server_can_have(error: Exception) -> None:
    assert isinstance(error, FAULTS)
    assert fault(error, "https://a..b", Phase.LIST).message == (
        "No server can have the address https://a..b; check its host name and port."
    )


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (302, "https://sso.test/login?state=secret#token", "https://sso.test/login"),
        (307, "https://user:secret@sso.test/", "https://sso.test/"),
        (308, "/login", "https://a.test:6443/login"),
        (301, "//sso.test/", "https://sso.test/"),
        (302, "https://sso.test/" + 300 * "x", "https://sso.test/" + 183 * "x"),
        (302, "http://[", None),
        (302, None, None),
        (200, "https://sso.test/", None),
    ],
)
def test_redirect_target_shows_no_secret(status: int, location: str | None, target: str | None) -> None:
    headers = {} if location is None else {"Location": location}
    answered = SimpleNamespace(status=status, headers=headers, url=URL("https://a.test:6443/api?x=1"))
    assert redirect_target(answered) == target  # type: ignore[arg-type]
