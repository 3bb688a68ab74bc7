"""Exec plugins: programs that a kubeconfig names, which print credentials.

kubernetes_asyncio runs them too, but waits forever, cannot end them, and does not keep the expiry of certificates.
Source of the protocol: kubernetes.io, "client-go credential plugins".
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from watchslo.errors import UNDECODABLE

PLUGIN_SECONDS = 60.0


class PluginError(Exception):
    """What is wrong with a plugin, and the remedy, without the plugin's output, which may contain secrets."""


@dataclass(frozen=True, slots=True)
class PluginCredential:
    """A token, or a certificate and its key in PEM form, or both; `expires_wall` is in Unix seconds."""

    token: str | None
    certificate: str | None
    key: str | None
    expires_wall: float


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    status: _ExecStatus


async def run_plugin(
    config: Mapping[str, Any], cluster: Mapping[str, Any], folder: str, environ: Mapping[str, str]
) -> PluginCredential:
    """Run the plugin of a kubeconfig's `exec` without a terminal; `folder` is that of the kubeconfig.

    Raises PluginError.
    """
    command = str(config.get("command"))
    program = os.path.join(folder, command) if os.sep in command else command  # noqa: PTH118 - keeps absolute paths
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *map(str, config.get("args") or ()),
            env=_environment(config, cluster, environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        hint = " ".join(str(config.get("installHint") or "").split()).rstrip(".")
        raise PluginError(
            f"the plugin {command} cannot be run ({error.strerror}); install it, or add its folder to the PATH"
            f"{'; its hint: ' if hint else ''}{hint}"
        ) from None
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise PluginError(
            f"the plugin {command} printed no credentials within {PLUGIN_SECONDS:g} s; run it by hand"
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise PluginError(f"the plugin {command} exited with status {process.returncode}; run it by hand to see why")
    return _credential(output, command)


def _environment(config: Mapping[str, Any], cluster: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if config.get("provideClusterInfo"):
        spec["cluster"] = {
            "server": cluster.get("server"),
            "tls-server-name": cluster.get("tls-server-name"),
            "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
            "certificate-authority-data": cluster.get("certificate-authority-data"),
            "proxy-url": cluster.get("proxy-url"),
        }
    info = {"apiVersion": config.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    own = {str(item["name"]): str(item["value"]) for item in config.get("env") or ()}
    return {**environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _credential(output: bytes, command: str) -> PluginCredential:
    try:
        status = msgspec.json.decode(output, type=_ExecCredential).status
    except UNDECODABLE:
        raise PluginError(f"the plugin {command} printed no ExecCredential; run it by hand") from None
    pair = (status.client_certificate_data, status.client_key_data)
    if not status.token and not all(pair):
        raise PluginError(f"the plugin {command} printed neither a token nor a certificate with key; run it by hand")
    expiry = status.expiration_timestamp
    return PluginCredential(status.token, *pair, expiry.timestamp() if expiry else float("inf"))
