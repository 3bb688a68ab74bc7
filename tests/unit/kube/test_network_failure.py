"""Failures that a server on loopback cannot cause; the others are in test_client.py and test_tls.py."""

import errno

import pytest

from watchslo.kube.network_failure import FAULTS, fault
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
