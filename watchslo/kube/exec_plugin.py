"""Exec plugins: programs that a kubeconfig names, which print credentials.

kubernetes_asyncio runs them too, but waits forever, cannot end them, and does not keep the expiry of certificates.
Source of the protocol: kubernetes.io, "client-go credential plugins".
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog
import yaml

from watchslo.asyncio_overrides import abandon
from watchslo.bounded import TooLongError, read_stream
from watchslo.errors import UNDECODABLE
from watchslo.kube.credentials import read_text
from watchslo.kube.merged_kubeconfig import decode_yaml

PLUGIN_SECONDS = 60.0
LOGIN_SECONDS = 600.0  # on a terminal: the user may have to log in first, in a browser
KILLED_SECONDS = 1.0  # until a plugin that was killed has ended
LONGEST_OUTPUT_BYTES = 2**20
CHUNK_BYTES = 4096
EXTENSION = "client.authentication.k8s.io/exec"
CLUSTER_KEYS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)


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
    plugin: Mapping[str, Any], cluster: Mapping[str, Any], environ: Mapping[str, str]
) -> PluginCredential:
    """Run the plugin of a kubeconfig's `exec` without input; a terminal shows what it prints on stderr.

    Raises PluginError.
    """
    command = plugin.get("command")
    if not command:
        raise PluginError("its exec plugin has no command; write one, or remove exec")
    on_terminal = _is_on_terminal()
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            command,
            *plugin.get("args", ()),
            env=_environment(plugin, cluster, environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if on_terminal else asyncio.subprocess.DEVNULL,
            process_group=None if on_terminal else 0,  # a terminal interrupts and asks only its own group
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:  # asyncio would kill the plugin without the programs that it started
        with contextlib.suppress(OSError):
            await _kill(await starting)
        raise
    except OSError as error:
        hint = " ".join(plugin.get("installHint", "").split()).rstrip(".")
        raise PluginError(
            f"the plugin {command} cannot be run ({error.strerror}); install it, or add its folder to the PATH"
            f"{'; its hint: ' if hint else ''}{hint}"
        ) from None
    output = await _output(process, command, LOGIN_SECONDS if process.stderr else PLUGIN_SECONDS)
    if process.returncode != 0:
        raise PluginError(f"the plugin {command} exited with status {process.returncode}; run it by hand to see why")
    return _credential(output, command)


async def _output(process: asyncio.subprocess.Process, command: str, seconds: float) -> bytes:
    """Return what a plugin prints until it ends; it is killed if that takes longer, or if that is too long."""
    assert process.stdout is not None
    has_ended = False
    try:
        async with asyncio.timeout(seconds):
            output, _ = await asyncio.gather(read_stream(process.stdout, LONGEST_OUTPUT_BYTES), _show(process.stderr))
            await process.wait()
        has_ended = True
    except TooLongError as error:
        raise PluginError(f"the output of the plugin {command} is {error.strerror}; run it by hand") from None
    except TimeoutError:
        raise PluginError(f"the plugin {command} printed no credentials within {seconds:g} s; run it by hand") from None
    finally:
        if not has_ended:
            await _kill(process)
    return output


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a plugin with the programs that it started, which may have its output open after it has ended.

    On a terminal, only the plugin is killed.
    """
    with contextlib.suppress(ProcessLookupError):
        if process.stderr is None:
            os.killpg(process.pid, signal.SIGKILL)
    abandon(process)
    try:
        async with asyncio.timeout(KILLED_SECONDS):
            await process.wait()
    except TimeoutError:
        structlog.get_logger().warning("plugin_not_ended", pid=process.pid)


def _is_on_terminal() -> bool:
    return sys.stderr.isatty()


async def _show(lines: asyncio.StreamReader | None) -> None:
    """Show what a plugin says to its user, for example where to log in."""
    while lines and (data := await lines.read(CHUNK_BYTES)):
        sys.stderr.write(data.decode(errors="replace"))
        sys.stderr.flush()


def _environment(plugin: Mapping[str, Any], cluster: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster_info(cluster)
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    own = {variable.get("name", ""): variable.get("value", "") for variable in plugin.get("env", ())}
    return {**environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plugin learns about its cluster: the CA always as data, and its own extension as `config`."""
    info = {key: cluster[key] for key in CLUSTER_KEYS if key in cluster}
    if "certificate-authority-data" not in info and "certificate-authority" in cluster:
        content = read_text(cluster["certificate-authority"])
        info["certificate-authority-data"] = base64.b64encode(content.encode()).decode()
    own = [
        extension.get("extension") for extension in cluster.get("extensions", ()) if extension.get("name") == EXTENSION
    ]
    return {**info, "config": next(iter(own), None)}


def _credential(output: bytes, command: str) -> PluginCredential:
    try:
        status = msgspec.convert(decode_yaml(output), type=_ExecCredential).status
    except (*UNDECODABLE, yaml.YAMLError):
        raise PluginError(f"the plugin {command} printed no ExecCredential; run it by hand") from None
    pair = (status.client_certificate_data, status.client_key_data)
    if not status.token and not all(pair):
        raise PluginError(f"the plugin {command} printed neither a token nor a certificate with key; run it by hand")
    expiry = status.expiration_timestamp
    return PluginCredential(status.token, *pair, expiry.timestamp() if expiry else float("inf"))
