"""Kubeconfigs of clusters that are simulated in this process."""

import socket
from typing import Any


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def token_of(name: str) -> str:
    return f"token-of-{name}"


def kubeconfig(**ports: int) -> dict[str, Any]:
    """Return a kubeconfig with a context for each cluster, by name; the first is the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}} for name, port in ports.items()],
        "users": [{"name": name, "user": {"token": token_of(name)}} for name in ports],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in ports],
        "current-context": next(iter(ports)),
    }
