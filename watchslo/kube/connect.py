"""Find the cluster and the credentials for it: the pod's service account, or a kubeconfig."""

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from watchslo.errors import ConnectError
from watchslo.kube.credentials import (
    Access,
    ClusterPlace,
    Credentials,
    CredentialSource,
    TlsMaker,
    clean_token,
    read_text,
    stamps,
)
from watchslo.kube.proxy_rule import ProxyRule, environment_rule

WRITABLE = "Any user may change which programs it runs and where it sends credentials; run chmod o-w on it."
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> CredentialSource:
    """Return the credentials for a cluster: as given, else of the pod, else by $KUBECONFIG or ~/.kube/config.

    Credentials are only loaded with the first request: a plugin or a token may fail now and work later. Raises
    ConnectError if there is no cluster to connect to.
    """
    in_pod = bool(environ.get("KUBERNETES_SERVICE_HOST"))
    if kubeconfig is None and context is None and in_pod and (service_account / "token").exists():
        return _in_cluster(environ, service_account)
    paths = _kubeconfigs(kubeconfig, environ)
    if paths:
        _warn_of_writers(paths)
        # kubernetes_asyncio is imported only if it is needed: it takes memory and time.
        from watchslo.kube.kubeconfig import connect_by_kubeconfig  # noqa: PLC0415

        return connect_by_kubeconfig(paths, context, environ)
    if in_pod:
        raise ConnectError(
            f"{service_account / 'token'}: no such file; give the pod a service account and mount its token"
        )
    if named := environ.get("KUBECONFIG"):
        raise ConnectError(f"no cluster: $KUBECONFIG names {named}, which does not exist; name a file that exists")
    raise ConnectError(
        "no cluster: this is not a pod, and there is no ~/.kube/config; "
        "name a kubeconfig with --kubeconfig or in $KUBECONFIG"
    )


def matching_contexts(kubeconfig: str | None, pattern: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the context of this name, or else all contexts whose whole name matches the regular expression.

    Raises ConnectError if there is none.
    """
    paths = _kubeconfigs(kubeconfig, environ)
    if not paths:
        return [pattern]  # connecting says what is missing
    from watchslo.kube.kubeconfig import contexts_of  # noqa: PLC0415 - as above

    return contexts_of(paths, pattern)


def _kubeconfigs(kubeconfig: str | None, environ: Mapping[str, str]) -> list[str]:
    if kubeconfig is not None:
        if not Path(kubeconfig).exists():
            raise ConnectError(f"{kubeconfig}: no such kubeconfig; name a file that exists")
        return [kubeconfig]
    listed = environ.get("KUBECONFIG") or os.path.join(environ.get("HOME", ""), ".kube", "config")  # noqa: PTH118
    return [path for path in listed.split(os.pathsep) if path and Path(path).exists()]


def _warn_of_writers(paths: Sequence[str]) -> None:
    """Warn of files that any user may change: they name programs to run and servers to send credentials to."""
    for path in paths:
        with contextlib.suppress(OSError):
            if Path(path).stat().st_mode & stat.S_IWOTH:
                structlog.get_logger().warning("kubeconfig_writable", path=path, message=WRITABLE)


def _in_cluster(environ: Mapping[str, str], service_account: Path) -> CredentialSource:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    proxy = environment_rule(environ)
    proxy.for_url(url)  # a proxy that is not supported is an error at once
    load = partial(_load_service_account, TlsMaker(), url, proxy, service_account)
    return CredentialSource(load, place=ClusterPlace(None, url))


async def _load_service_account(tls: TlsMaker, url: str, proxy: ProxyRule, folder: Path) -> Credentials:
    token, ca = str(folder / "token"), str(folder / "ca.crt")
    files = stamps((token, ca))
    authorization = f"Bearer {clean_token(read_text(token), token)}"
    access = Access(url, (("Authorization", authorization),), tls.make(ca), proxy=proxy)
    return Credentials(access, files)
