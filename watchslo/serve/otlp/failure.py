"""Why a collector did not accept metrics: one sentence from an exception or a status code, with what to do."""

import os

import requests

from watchslo.errors import WatchsloError, error_location

GRPC_PORT = ":4317/"
_ANSWERS = {
    400: "it cannot read them; compare its version with that of the packages `opentelemetry-*` here",
    401: "it refuses the credentials; correct the headers in `otlp.headersFile`, or OTEL_EXPORTER_OTLP_HEADERS",
    403: "it refuses the credentials; correct the headers in `otlp.headersFile`, or OTEL_EXPORTER_OTLP_HEADERS",
    404: "it takes no OTLP metrics at that path; correct `otlp.endpoint`, to which /v1/metrics is added",
    413: "it takes no requests of this size; raise its limit",
    415: "it takes no protobuf or no gzip; set OTEL_EXPORTER_OTLP_COMPRESSION=none, or enable protobuf there",
    429: "it takes no more at present; raise its limits or `otlp.interval` if that lasts",
    503: "it takes none at present; see its log",
}
_CA = "name the file of its CA in OTEL_EXPORTER_OTLP_CERTIFICATE"


class PushError(WatchsloError):
    """Metrics that were not pushed."""


def of_status(code: int) -> str:
    """Return why an answer means that nothing was accepted."""
    if code in range(300, 400):
        return f"it answered {code}, a redirection; write the URL that it names as `otlp.endpoint`"
    return f"it answered {code}: {_ANSWERS.get(code, 'see its log')}"


def of_error(error: Exception, url: str) -> str:
    """Return why there was no answer. The text of the exception is left out: it may contain credentials."""
    match error:
        case requests.exceptions.SSLError():
            return f"its certificate is not trusted, or not for this host; {_CA}, or correct `otlp.endpoint`"
        case requests.exceptions.ProxyError():
            return "the proxy does not answer; correct HTTPS_PROXY, or name the host in NO_PROXY"
        case requests.exceptions.Timeout():
            return "it does not answer in time; check its address and network policies, or OTEL_EXPORTER_OTLP_TIMEOUT"
        case requests.exceptions.ConnectionError():
            return _unconnected(error, url)
        case OSError() if not isinstance(error, requests.RequestException):  # of `requests`: a file that does not exist
            return "a certificate file cannot be read; correct the variables OTEL_EXPORTER_OTLP_*CERTIFICATE"
        case _:
            return f"the request failed ({error_location(error)}); check `otlp.endpoint` and the headers"


def _unconnected(error: BaseException, url: str) -> str:
    causes = [*_causes(error)]
    if any(type(cause).__name__ == "NameResolutionError" for cause in causes):
        return "its name is unknown here; correct `otlp.endpoint`"
    reasons = [os.strerror(cause.errno).lower() for cause in causes if isinstance(cause, OSError) and cause.errno]
    if reasons and "refused" in reasons[-1]:
        return f"{reasons[-1]}; start the collector, or correct `otlp.endpoint`"
    if GRPC_PORT in url:
        return "it does not speak HTTP; port 4317 is usually that of gRPC: write port 4318"
    return f"{reasons[-1] if reasons else 'the connection broke'}; check its address, and that it speaks HTTP there"


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and what caused it, as `requests` and urllib3 nest them."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in found:
        found.append(following)
        reason = getattr(following, "reason", None)
        inner = next(
            (candidate for candidate in (reason, *following.args) if isinstance(candidate, BaseException)), None
        )
        following = inner or following.__cause__ or following.__context__
    return found
