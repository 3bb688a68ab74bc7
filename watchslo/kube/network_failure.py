"""Turn network exceptions into failures: the only module that interprets network exceptions."""

import errno
import ssl
from dataclasses import replace
from http import HTTPStatus

import aiohttp
from yarl import URL

from watchslo.errors import ConnectError
from watchslo.watch.failure import Failure, Phase, Reason, because

FAULTS = (
    aiohttp.ClientError,
    aiohttp.http_exceptions.HttpProcessingError,
    OSError,
    ConnectError,
    UnicodeError,
    OverflowError,
)
"""The exceptions that a request may raise without an error in this program; timeouts are OSErrors too.

The last two are raised for host names and ports that cannot exist.
"""

BUFFERED = "If lists are answered, a proxy on the way holds the watch back: turn off its buffering."
LONGEST_TARGET = 200  # characters of a URL


def redirect_target(response: aiohttp.ClientResponse) -> str | None:
    """Return where a redirect leads, without query and fragment, which may have secrets; None if it is no redirect."""
    location = response.headers.get("Location", "")
    if response.status // 100 != HTTPStatus.MULTIPLE_CHOICES // 100 or not location:
        return None
    try:
        target = response.url.join(URL(location))
    except ValueError:
        return None
    shown = str(target.with_user(None).with_query(None).with_fragment(None) if target.host else target)
    return shown[:LONGEST_TARGET] if shown.isprintable() else None


_BY_ERRNO = {
    errno.ECONNREFUSED: Reason.REFUSED,
    errno.ECONNRESET: Reason.RESET,
    errno.EPIPE: Reason.RESET,
    errno.ETIMEDOUT: Reason.TIMEOUT,  # TCP_USER_TIMEOUT or keepalive gave up
}
_TLS_REMEDIES = {  # by OpenSSL's X509_V_ERR_*
    9: "compare the clocks",  # CERT_NOT_YET_VALID
    10: "renew the certificate of the apiserver",  # CERT_HAS_EXPIRED
    18: "name the CA of the cluster as certificate-authority",  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: "name the CA of the cluster as certificate-authority",  # SELF_SIGNED_CERT_IN_CHAIN
    20: "name the CA of the cluster as certificate-authority",  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    62: "set tls-server-name to a name in the certificate",  # HOSTNAME_MISMATCH
    64: "set tls-server-name to a name in the certificate",  # IP_ADDRESS_MISMATCH
}


def fault(error: Exception, address: str, phase: Phase) -> Failure:
    """Return the failure for one of `FAULTS`; its message names the address and the remedy."""
    reason, message = _classify(error, address, phase)
    return replace(because(reason, phase=phase), message=message)


def _classify(error: Exception, address: str, phase: Phase) -> tuple[Reason, str]:
    match error:
        case ConnectError():
            return Reason.CREDENTIALS, f"No credentials: {error}."
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return _classify_connect_error(error, address)
        case TimeoutError():
            advice = f" {BUFFERED}" if phase is Phase.OPEN else ""
            return Reason.TIMEOUT, f"No answer from {address} in time.{advice}"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return _classify_interruption(error, address)
        case OSError():
            return _classify_os_error(error, address)
        case _:
            return _classify_other(error, address)


def _classify_connect_error(
    error: aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError, address: str
) -> tuple[Reason, str]:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return Reason.UNREACHABLE, f"No connection to {address} in time; check the network path."
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as cause):
            remedy = _TLS_REMEDIES.get(cause.verify_code, "check it and the CA")
            return Reason.TLS, f"The certificate of {address} is not accepted ({cause.verify_message}); {remedy}."
        case aiohttp.ClientProxyConnectionError():
            return Reason.UNREACHABLE, f"The proxy for {address} cannot be reached; check the proxy and its address."
        case aiohttp.ClientConnectorDNSError():
            return Reason.DNS, f"The host name in {address} does not resolve; check the address and the DNS."
        case _:
            return _classify_os_error(error.os_error, address)


def _classify_interruption(error: aiohttp.ClientError, address: str) -> tuple[Reason, str]:
    # aiohttp keeps only the text of the original exception.
    if "ConnectionResetError" in str(error):
        return Reason.RESET, f"The connection to {address} was reset."
    return Reason.EARLY_EOF, f"The connection to {address} was cut within an answer."


def _classify_os_error(error: OSError, address: str) -> tuple[Reason, str]:
    cause = str(error) or type(error).__name__
    if "[SSL" in cause:
        return (
            Reason.TLS,
            f"TLS with {address} fails ({cause}); check that it serves HTTPS and accepts the client certificate.",
        )
    reason = _BY_ERRNO.get(error.errno or 0, Reason.UNREACHABLE)
    if reason is Reason.RESET or isinstance(error, ConnectionResetError):  # not all of these have an errno
        return Reason.RESET, f"The connection to {address} was reset."
    if reason is Reason.REFUSED:
        return reason, f"Connection refused by {address}; check that the apiserver runs there."
    return reason, f"The connection to {address} failed: {cause}."


def _classify_other(error: Exception, address: str) -> tuple[Reason, str]:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Reason.UNREACHABLE, f"The proxy for {address} answers {error.status}; check the proxy's configuration."
    if isinstance(error, UnicodeError | OverflowError):
        return Reason.DNS, f"No server can have the address {address}; check its host name and port."
    return Reason.GARBAGE, f"The answer of {address} is not HTTP; check the address."
