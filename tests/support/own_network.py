"""A network of a test's own, with addresses that are not loopback, as a real control plane has.

The endpoint reconciler of an apiserver announces no loopback address. So a test that needs it runs in a network
namespace: its thread, and all processes that this thread starts, see only these addresses. It needs root, and `ip`.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

OF_THIS_THREAD = "/proc/thread-self/ns/net"
HOSTS = ("10.99.0.1", "10.99.0.2", "10.99.0.3")
"""Addresses for the apiservers of a control plane."""

NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@contextlib.contextmanager
def own_network(*addresses: str) -> Iterator[None]:
    """Let this thread, and the processes that it starts, live in an empty network with these addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open(OF_THIS_THREAD, os.O_RDONLY)
    try:
        _call(libc.unshare(NEW_NETWORK), "a network namespace needs root")
        try:
            for command in ("link set lo up", *(f"addr add {address}/32 dev lo" for address in addresses)):
                subprocess.run(["ip", *command.split()], check=True)
            yield
        finally:
            _call(libc.setns(before, NEW_NETWORK), "the thread cannot return to its network")
    finally:
        os.close(before)


def _call(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
