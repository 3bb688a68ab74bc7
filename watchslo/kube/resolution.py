"""The addresses of a host name; that of a headless Service has those of all its pods."""

import asyncio
import socket
from collections.abc import Sequence

RESOLVE_SECONDS = 5.0


async def resolve(name: str, port: int | None = None) -> Sequence[str]:
    """Return the sorted IPv4 addresses of a name, or the IPv6 ones without any: both families are the same pods.

    Raises:
        OSError: if it does not resolve, or not in time.
    """
    async with asyncio.timeout(RESOLVE_SECONDS):
        found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    families = {
        family: sorted({str(place[0]) for other, *_, place in found if other is family}) for family, *_ in found
    }
    return families.get(socket.AF_INET) or families.get(socket.AF_INET6) or []
