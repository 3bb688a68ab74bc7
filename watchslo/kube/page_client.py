"""Requests for the page of metrics of a program that is no apiserver. They return values and never raise."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Self

import aiohttp
from yarl import URL

from watchslo.errors import ConnectError
from watchslo.kube.connections import ConnectionPool
from watchslo.kube.credentials import CredentialSource, TlsMaker
from watchslo.kube.network_failure import FAULTS, fault
from watchslo.kube.refusal import TakePiece, pass_body
from watchslo.kube.resolution import resolve
from watchslo.watch.failure import Failure, Phase, Reason, because

PAGE_SECONDS = 8.0  # for a whole page: less than the time between two reads
LONGEST_PAGE_BYTES = 32 * 2**20  # kube-controller-manager of a large cluster has a few
ACCEPT = (("Accept", "text/plain;version=0.0.4"),)

_NETWORK = "check the network path, for example a NetworkPolicy"
_MESSAGES: Mapping[Reason, str] = {
    Reason.REFUSED: f"{{address}} refuses the connection; check that the program listens there, and {_NETWORK}.",
    Reason.UNREACHABLE: f"{{address}} cannot be reached; {_NETWORK}.",
    Reason.TIMEOUT: f"{{address}} does not answer in time; {_NETWORK}.",
    Reason.DNS: "The host name in {address} does not resolve; check `url` and the DNS.",
    Reason.TLS: (
        "TLS with {address} fails; name the CA of its certificate in `caFile`, or write insecureSkipVerify: true."
    ),
    Reason.UNAUTHORIZED: "{address} does not know this identity; write authorization: kubernetes, or check the token.",
    Reason.FORBIDDEN: (
        "{address} refuses its page; write authorization: kubernetes, and apply the output of `watchslo rbac`."
    ),
}
_OTHER = "{address} sends no page of metrics ({reason}); check `url`."
_LONG = f"The page of {{address}} is longer than {LONGEST_PAGE_BYTES // 2**20} MiB."
_BY_STATUS: Mapping[int, Reason] = {
    HTTPStatus.UNAUTHORIZED: Reason.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: Reason.FORBIDDEN,
}


async def processes_of(url: str) -> Sequence[str]:
    """Return the addresses of the host in a URL, of which each is a process; none if it does not resolve."""
    try:
        return await resolve(URL(url).host or "")
    except OSError:
        return ()


class PageClient:
    """Reads one page; open it as a context, on the event loop where it is used.

    With `address`, it is that of the host in the URL to which requests are sent. The token of the `credentials` is
    sent, if there are any. If `verify` is true, certificates must be valid by the CAs in `ca_file`, or else by those of
    the system. No proxy is used: such programs are in the cluster.
    """

    def __init__(
        self,
        url: str,
        credentials: CredentialSource | None = None,
        ca_file: str | None = None,
        *,
        verify: bool = True,
        address: str | None = None,
    ) -> None:
        asked = URL(url)
        self._url = asked.with_host(address) if address else asked
        self._host = (("Host", asked.authority),) if address else ()
        self._server_hostname = asked.host if address else None
        self._address = str(self._url.origin())
        self._credentials = credentials
        self._ca_file = ca_file
        self._verify = verify
        self._tls = TlsMaker()

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def read(self, take: TakePiece) -> tuple[float, float] | Failure:
        """Pass the page to `take`; return when it was asked for and complete, in monotonic seconds, or why not."""
        try:
            headers = (await self._credentials.access()).headers if self._credentials else ()
            tls = await asyncio.to_thread(self._tls.make, self._ca_file, verify=self._verify)
            async with self._pool.session() as session:
                sent = time.monotonic()
                async with session.get(
                    self._url,
                    headers=[*headers, *ACCEPT, *self._host],
                    server_hostname=self._server_hostname,
                    timeout=aiohttp.ClientTimeout(total=PAGE_SECONDS),
                    allow_redirects=False,
                    ssl=tls,
                ) as response:
                    if response.status != HTTPStatus.OK:
                        return self._failure(_BY_STATUS.get(response.status, Reason.UNEXPECTED_STATUS))
                    if not await pass_body(response, take, LONGEST_PAGE_BYTES):
                        message = _LONG.format(address=self._address)
                        return replace(because(Reason.GARBAGE, phase=Phase.LIST), message=message)
        except ConnectError as error:
            return replace(because(Reason.CREDENTIALS), message=f"The page cannot be asked for: {error}.")
        except FAULTS as error:
            return self._failure(fault(error, self._address, Phase.LIST).reason)
        return sent, time.monotonic()

    def _failure(self, reason: Reason) -> Failure:
        message = _MESSAGES.get(reason, _OTHER).format(address=self._address, reason=reason.value)
        return replace(because(reason, phase=Phase.LIST), message=message)
