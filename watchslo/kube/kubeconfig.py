"""Credentials from a kubeconfig, read by kubernetes_asyncio.

This module does what the library lacks or does wrongly: messages about invalid files (the library's show whole entries
with their secrets), absent users, changing `tokenFile`s, exec plugins, and impersonation.
"""

import asyncio
import base64
import binascii
import difflib
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from watchslo.errors import ConnectError
from watchslo.kube.credentials import (
    Access,
    Credentials,
    CredentialSource,
    TlsMaker,
    clean_token,
    read_text,
    stamps,
)
from watchslo.kube.exec_plugin import PluginError, run_plugin
from watchslo.kube.kubeconfig_reader import (
    ConfigException,
    ConfigNode,
    Configuration,
    KubeConfigLoader,
    KubeConfigMerger,
)
from watchslo.kube.proxy_rule import environment_rule, fixed_rule

logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)  # it also raises what it logs

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _ContextChoice:
    """One context of a kubeconfig with its cluster and user; `files` are the files that these refer to."""

    origin: str
    context: str
    cluster: Entry
    user: dict[str, Any]
    folder: str
    token_file: str | None
    files: tuple[str, ...]
    loader: Any


def connect_by_kubeconfig(paths: list[str], context: str | None, environ: Mapping[str, str]) -> CredentialSource:
    """Return the credentials of a context, by default the current one; a later change of current-context is ignored.

    Raises ConnectError for errors that a retry cannot fix.
    """
    choice = _choose(paths, context)
    return CredentialSource(partial(_load, TlsMaker(), paths, choice.context, environ), context=choice.context)


async def _load(tls: TlsMaker, paths: list[str], context: str, environ: Mapping[str, str]) -> Credentials:
    kubeconfigs = stamps(paths)
    choice = await asyncio.to_thread(_choose, paths, context)
    files = {**stamps(choice.files), **kubeconfigs}
    if choice.token_file is not None:  # client-go prefers it to `token`; the library would not strip its newline
        choice.user["token"] = clean_token(read_text(choice.token_file), choice.token_file)
    configuration = Configuration()
    costly = "exec" in choice.user
    try:
        expires_wall = await _apply_plugin(choice, environ)
        await choice.loader.load_and_set(configuration)
    except Exception as error:  # noqa: BLE001 - the library raises anything
        raise ConnectError(f"{choice.origin}: context {context}: {_explain_error(error)}") from None
    access = await asyncio.to_thread(_access, tls, choice, configuration, environ)
    return Credentials(access, files, expires_wall, costly)


async def _apply_plugin(choice: _ContextChoice, environ: Mapping[str, str]) -> float:
    """Replace the user's `exec`, if any, by the credentials it prints; return when these expire (Unix seconds)."""
    plugin = choice.user.pop("exec", None)
    if plugin is None:
        return float("inf")
    credential = await run_plugin(plugin, choice.cluster, choice.folder, environ)
    if credential.token:
        choice.user["token"] = credential.token
    if credential.certificate and credential.key:
        choice.user["client-certificate-data"] = base64.b64encode(credential.certificate.encode()).decode()
        choice.user["client-key-data"] = base64.b64encode(credential.key.encode()).decode()
    return credential.expires_wall


def _access(tls: TlsMaker, choice: _ContextChoice, configuration: Configuration, environ: Mapping[str, str]) -> Access:
    url = choice.cluster["server"].rstrip("/")
    proxy = configuration.proxy
    return Access(
        url,
        headers=(*_authorization(choice, configuration), *_impersonation(choice.user)),
        tls=_tls(tls, choice, configuration) if url.startswith("https:") else None,
        server_name=configuration.tls_server_name,
        proxy=fixed_rule(proxy, f"{choice.origin}: proxy-url") if proxy else environment_rule(environ),
    )


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
        case PluginError():
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


def _choose(paths: list[str], context: str | None) -> _ContextChoice:
    origin = os.pathsep.join(paths)
    try:
        merged: Any = KubeConfigMerger(origin).config  # None if the files no longer exist
        contexts, clusters, users = (
            {item.value["name"]: item for item in merged.value[kind]} for kind in ("contexts", "clusters", "users")
        )
        context = context or merged.value.get("current-context")
        if context not in contexts:
            raise ConnectError(f"{origin}: {_no_context(context, list(contexts))}")
        names = contexts[context].value.get("context") or {}
        cluster = _find_entry(clusters, "cluster", names, f"{origin}: context {context}")
        user = _find_entry(users, "user", names, f"{origin}: context {context}") if names.get("user") else None
        return _choice(paths, context, merged, cluster, user)
    except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError, AttributeError, ConfigException):
        raise ConnectError(f"{origin}: not a kubeconfig; look at it with `kubectl config view`") from None


def _choice(
    paths: list[str], context: str, merged: Any, cluster: ConfigNode, user: ConfigNode | None
) -> _ContextChoice:
    server = cluster.value["cluster"].get("server")
    if urlsplit(server).scheme not in ("http", "https"):
        raise ConnectError(f"{cluster.path}: the server of context {context} is not a URL; write https://host:port")
    loader: Any = KubeConfigLoader(merged, context, config_base_path=None)
    if user is None:
        loader.cert_file = loader.key_file = None  # without a user, the library would fail on these
    found = _paths(cluster, "cluster", "certificate-authority")
    if user is not None:
        found |= _paths(user, "user", "client-certificate", "client-key", "tokenFile")
    return _ContextChoice(
        origin=os.pathsep.join(paths),
        context=context,
        cluster=cluster.value["cluster"],
        user=user.value["user"] if user is not None else {},
        folder=_folder(cluster if user is None else user),
        token_file=found.get("tokenFile"),
        files=tuple(found.values()),
        loader=loader,
    )


def _find_entry(entries: Mapping[str, ConfigNode], kind: str, names: Entry, origin: str) -> ConfigNode:
    """Return the cluster or user that a context names, with an empty mapping for missing content."""
    entry = entries.get(names.get(kind, ""))
    if entry is None:
        raise ConnectError(f"{origin}: its {kind} {names.get(kind)} is missing; add it, or choose another context")
    entry.value[kind] = entry.value.get(kind) or {}
    return entry


def _no_context(context: str | None, known: list[str]) -> str:
    if not known:
        return "has no contexts; add one, or name another kubeconfig with --kubeconfig"
    if not context:
        return f"has no current context; choose one with --context: {', '.join(known)}"
    near = difflib.get_close_matches(context, known, n=1)
    return f"has no context {context}; " + (f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}")


def _paths(entry: ConfigNode, kind: str, *keys: str) -> dict[str, str]:
    """Return the files that an entry refers to, relative to the folder of its kubeconfig, as in kubectl."""
    values = {key: entry.value[kind][key] for key in keys if entry.value[kind].get(key)}
    return {key: os.path.normpath(os.path.join(_folder(entry), value)) for key, value in values.items()}  # noqa: PTH118


def _folder(entry: ConfigNode) -> str:
    return os.path.dirname(os.path.abspath(entry.path or ""))  # noqa: PTH100, PTH120 - all of these are strings
