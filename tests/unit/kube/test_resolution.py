"""The addresses of a host name."""

import asyncio
import socket
from typing import Any

import pytest

from watchslo.kube import resolution
from watchslo.kube.page_client import processes_of
from watchslo.kube.resolution import resolve


async def test_resolve_returns_each_address_once_of_one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 1)) for host in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]
    six: list[Any] = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 1, 0, 0))]
    for found, expected in ((six + four, ["10.0.0.1", "10.0.0.2"]), (six, ["fd00::1"]), ([], [])):

        async def look_up(*_: object, found: list[Any] = found, **__: object) -> list[Any]:
            return found

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up, raising=False)
        assert list(await resolve("any", 1)) == expected


async def test_slow_dns_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang, raising=False)
    monkeypatch.setattr(resolution, "RESOLVE_SECONDS", 0.01)
    with pytest.raises(TimeoutError):
        await resolve("any", 1)


async def test_program_whose_name_does_not_resolve_has_no_known_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail, raising=False)
    assert await processes_of("https://program.test:1/metrics") == ()
