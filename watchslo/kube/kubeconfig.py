"""Credentials from a kubeconfig. kubernetes_asyncio loads tokens, passwords and certificates of one context.

This module does what the library lacks or does wrongly: the choice of the context, messages about invalid files (the
library's show whole entries with their secrets), changing `tokenFile`s, exec plugins, OpenID Connect and impersonation.
"""

import asyncio
import base64
import binascii
import difflib
import logging
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from watchslo.errors import ConnectError
from watchslo.kube.credentials import (
    Access,
    ClusterPlace,
    Credentials,
    CredentialSource,
    PluginRun,
    TlsMaker,
    clean_token,
    read_text,
    stamps,
)
from watchslo.kube.exec_plugin import PluginError, run_plugin
from watchslo.kube.kubeconfig_reader import ConfigException, Configuration, KubeConfigLoader
from watchslo.kube.merged_kubeconfig import FILES, Entry, read_kubeconfigs
from watchslo.kube.openid import ProviderError, id_token
from watchslo.kube.proxy_rule import ProxyRule, environment_rule, fixed_rule
from watchslo.kube.urls import is_host, server_url
from watchslo.timeline.format import counted

logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)  # it also raises what it logs


@dataclass(frozen=True, slots=True)
class _ContextChoice:
    """One context of a kubeconfig with its server, cluster and user."""

    origin: str
    context: str
    server: str
    cluster: Entry
    user: Entry

    @property
    def files(self) -> tuple[str, ...]:
        """The files that cluster and user refer to."""
        entry = self.cluster | self.user
        return tuple(entry[key] for key in chain(*FILES.values()) if key in entry)


def connect_by_kubeconfig(paths: Sequence[str], context: str | None, environ: Mapping[str, str]) -> CredentialSource:
    """Return the credentials of a context, by default the current one; a later change of current-context is ignored.

    Raises ConnectError for errors that a retry cannot fix.
    """
    choice, plugin = _choose(paths, context), PluginRun()
    _proxy(choice, environ)
    load = partial(_load, TlsMaker(), paths, choice.context, environ, plugin)
    return CredentialSource(load, place=ClusterPlace(choice.context, choice.server), plugin=plugin)


def contexts_of(paths: Sequence[str], pattern: str) -> list[str]:
    """Return the context of this name, or else all contexts whose whole name matches the regular expression.

    Raises ConnectError if there is none.
    """
    merged = read_kubeconfigs(paths)
    names = [name for name in merged.contexts if name]
    if pattern in names or not names:
        return [pattern]  # without contexts, connecting says what is missing
    try:
        found = [name for name in names if re.fullmatch(pattern, name)]
    except re.error as error:
        raise ConnectError(
            f"--context: {pattern} is neither a context nor a regular expression ({error}); write .* for any text"
        ) from None
    if not found:
        near = difflib.get_close_matches(pattern, names, n=1)
        remedy = f"did you mean {near[0]}?" if near else "see `kubectl config get-contexts`, and write .* for any text"
        count = counted(len(names), "context")
        raise ConnectError(f"{merged.origin}: has {count}, but none is named {pattern} or matches it; {remedy}")
    return found


async def _load(
    tls: TlsMaker, paths: Sequence[str], context: str, environ: Mapping[str, str], running: PluginRun
) -> Credentials:
    kubeconfigs = stamps(paths)
    choice = await asyncio.to_thread(_choose, paths, context)
    files = {**stamps(choice.files), **kubeconfigs}
    _read_token(choice.user)
    configuration = Configuration()
    costly = "exec" in choice.user
    try:
        expires_wall = await _authenticate(choice, environ, running)
        await _loader(choice).load_and_set(configuration)
    except Exception as error:  # noqa: BLE001 - the library raises anything
        raise ConnectError(f"{choice.origin}: context {context}: {_explain_error(error)}") from None
    access = await asyncio.to_thread(_access, tls, choice, configuration, environ)
    return Credentials(access, files, expires_wall, costly)


def _read_token(user: Entry) -> None:
    """Read the `tokenFile`, which client-go prefers to `token` while it has one."""
    if (path := user.pop("tokenFile", None)) is None:
        return
    try:
        user["token"] = clean_token(read_text(path), path)
    except ConnectError:
        if "token" not in user:
            raise


async def _authenticate(choice: _ContextChoice, environ: Mapping[str, str], running: PluginRun) -> float:
    """Replace the user's plugin or provider by what it says; return when that expires (Unix seconds).

    As in client-go, a plugin is not asked if the user has a token, a name or a certificate; nor a provider for a token.
    """
    user = choice.user
    plugin, provider = user.pop("exec", None), user.pop("auth-provider", None)
    if provider is not None and "token" not in user and "username" not in user:
        user["token"], expires_wall = id_token(provider, time.time())
        return expires_wall
    if plugin is None or user.keys() & {"token", "username", "client-certificate", "client-certificate-data"}:
        return float("inf")
    running.command = plugin.get("command")
    try:
        return await _apply_plugin(plugin, choice, environ)
    finally:
        running.command = None


def _loader(choice: _ContextChoice) -> Any:
    """Return the library's loader of this one context."""
    name, user = choice.context, choice.user
    if "username" in user:
        user.setdefault("password", "")  # the library would leave out the name too
    content = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {**choice.cluster, "server": choice.server}}],
        "users": [{"name": name, "user": user}],
    }
    return KubeConfigLoader(content, name)


async def _apply_plugin(plugin: Entry, choice: _ContextChoice, environ: Mapping[str, str]) -> float:
    """Add the credentials that a plugin prints to the user; return when they expire (Unix seconds)."""
    credential = await run_plugin(plugin, choice.cluster, environ)
    if credential.token:
        choice.user["token"] = credential.token
    if credential.certificate and credential.key:
        choice.user["client-certificate-data"] = base64.b64encode(credential.certificate.encode()).decode()
        choice.user["client-key-data"] = base64.b64encode(credential.key.encode()).decode()
    return credential.expires_wall


def _access(tls: TlsMaker, choice: _ContextChoice, configuration: Configuration, environ: Mapping[str, str]) -> Access:
    return Access(
        choice.server,
        headers=(*_authorization(choice, configuration), *_impersonation(choice.user)),
        tls=_tls(tls, choice, configuration) if choice.server.startswith("https:") else None,
        server_name=configuration.tls_server_name,
        proxy=_proxy(choice, environ),
    )


def _proxy(choice: _ContextChoice, environ: Mapping[str, str]) -> ProxyRule:
    """Return the rule for proxies; raises ConnectError if that of the server is not supported."""
    own = choice.cluster.get("proxy-url")
    rule = fixed_rule(own, f"{choice.origin}: proxy-url") if own else environment_rule(environ)
    rule.for_url(choice.server)
    return rule


def _tls(tls: TlsMaker, choice: _ContextChoice, configuration: Configuration) -> ssl.SSLContext:
    ca, certificate = configuration.ssl_ca_cert, configuration.cert_file
    try:
        return tls.make(ca, certificate, configuration.key_file, verify=configuration.verify_ssl)
    except ConnectError:
        if {ca, certificate} <= {None, *choice.files}:
            raise
        # The library writes inline data to temporary files, whose names would not help the user.
        raise ConnectError(
            f"{choice.origin}: context {choice.context}: its certificates are not usable; copy the kubeconfig again"
        ) from None


def _authorization(choice: _ContextChoice, configuration: Configuration) -> list[tuple[str, str]]:
    value = configuration.api_key.get("BearerToken")
    if value is None:
        return []
    scheme, _, secret = value.partition(" ")
    token = clean_token(secret, f"{choice.origin}: context {choice.context}")
    return [("Authorization", f"{scheme} {token}")]


def _impersonation(user: Entry) -> list[tuple[str, str]]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`."""
    headers = [
        (header, user[key])
        for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid"))
        if user.get(key)
    ]
    headers += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return headers


def _explain_error(error: Exception) -> str:
    """Return why credentials could not be loaded, without secrets."""
    match error:
        case PluginError() | ProviderError():
            return str(error)
        case ConfigException() if str(error).startswith("File does not exists"):
            return f"{str(error).rpartition(': ')[2]} does not exist; create it or name another file"
        case OSError():
            reason = (error.strerror or "no folder is writable").lower()
            return (
                f"its certificates cannot be written to temporary files ({reason}); "
                "make /tmp writable, or name files in the kubeconfig"
            )
        case binascii.Error():
            return "a value is not valid base64; copy the kubeconfig again"
        case _:
            return f"its credentials cannot be loaded ({type(error).__name__}); try kubectl with this context"


def _choose(paths: Sequence[str], context: str | None) -> _ContextChoice:
    merged = read_kubeconfigs(paths)
    context = context or merged.current_context
    if not context or context not in merged.contexts:
        raise ConnectError(f"{merged.origin}: {_no_context(context, [name for name in merged.contexts if name])}")
    names, origin = merged.contexts[context], f"{merged.origin}: context {context}"
    cluster = _find_entry(merged.clusters, "cluster", names, origin)
    server = _server(cluster)
    if server is None:
        raise ConnectError(f"{merged.origin}: the server of context {context} is not a URL; write https://host:port")
    if (name := cluster.get("tls-server-name")) and not is_host(name):
        raise ConnectError(
            f"{merged.origin}: the tls-server-name of context {context} is no name of a host; correct it"
        )
    return _ContextChoice(merged.origin, context, server, cluster, _user(merged.users, names, cluster, origin))


def _server(cluster: Entry) -> str | None:
    """Return the URL of a cluster, its scheme in lower case and without a slash at its end; None for other texts.

    As in client-go, a server without a scheme is asked by plain HTTP, even if the cluster has a CA (clientcmd,
    `ClientConfig`, and rest, `DefaultServerURL`).
    """
    server = cluster.get("server", "")
    try:
        url = server_url(server if _has_scheme(cluster) else f"http://{server}")
    except ValueError:
        return None
    if not url.netloc or not (_has_scheme(cluster) or url.path in ("", "/")):
        return None
    return url._replace(query="", fragment="").geturl().rstrip("/") if url.scheme in ("http", "https") else None


def _has_scheme(cluster: Entry) -> bool:
    return "://" in cluster.get("server", "")


def _user(users: Mapping[str, Entry], names: Entry, cluster: Entry, origin: str) -> Entry:
    """Return the user that a context names.

    As in client-go, it may be missing for plain HTTP, and a server without a scheme gets no credentials.
    """
    if not _has_scheme(cluster):
        return {key: value for key, value in users.get(names.get("user", ""), {}).items() if key.startswith("as")}
    if "user" not in names or (names["user"] not in users and cluster["server"].lower().startswith("http:")):
        return {}
    return _find_entry(users, "user", names, origin)


def _find_entry(entries: Mapping[str, Entry], kind: str, names: Entry, origin: str) -> Entry:
    """Return the cluster or user that a context names."""
    name = names.get(kind, "")
    if name not in entries:
        named = f"its {kind} {name} is missing" if name else f"it names no {kind}"
        raise ConnectError(f"{origin}: {named}; add it, or choose another context")
    return entries[name]


def _no_context(context: str | None, known: list[str]) -> str:
    if not known:
        return "has no contexts; add one, or name another kubeconfig with --kubeconfig"
    if not context:
        return f"has no current context; choose one with --context: {', '.join(known)}"
    near = difflib.get_close_matches(context, known, n=1)
    return f"has no context {context}; " + (f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}")
