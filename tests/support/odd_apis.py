"""Aggregated APIs as metrics adapters and KubeVirt have them, and one whose discovery document is wrong."""

import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.background import ServerThread
from tests.support.certs import Pair
from tests.support.writer import Writer

METRICS, SUBRESOURCES, WRONG = "custom.metrics.k8s.io", "subresources.kubevirt.io", "wrong.watchslo.invalid"
VERSION = "v1beta1"
SERVICE = "odd-apis"

RESOURCES: dict[str, list[dict[str, Any]]] = {
    METRICS: [{"name": "pods/http_requests", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}],
    SUBRESOURCES: [{"name": "expand-vm-spec", "namespaced": True, "kind": "", "verbs": None}],
    WRONG: [{"name": "things", "namespaced": True, "kind": "Thing", "verbs": "get"}],
}
"""The resources by group: of the first only a subresource, of the second one without verbs."""


class OddApis(ServerThread):
    """Serves the discovery documents of the groups, each for itself, as servers before aggregated discovery do."""

    def __init__(self, pair: Pair) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        super().__init__(server)
        self._port = server.server_address[1]

    def register(self, writer: Writer) -> None:
        """Register the groups at an apiserver, which reaches them by a service that is a name."""
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self._port}]}
        writer.create("/api/v1/namespaces/default/services", {"metadata": {"name": SERVICE}, "spec": spec})
        for group in RESOURCES:
            requested = {
                "group": group,
                "version": VERSION,
                "service": {"namespace": "default", "name": SERVICE, "port": self._port},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            }
            body = {"metadata": {"name": f"{VERSION}.{group}"}, "spec": requested}
            writer.create("/apis/apiregistration.k8s.io/v1/apiservices", body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        group = self.path.removeprefix("/apis/").partition("/")[0]
        resources = RESOURCES.get(group)
        document = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{VERSION}"}
        body = json.dumps({**document, "resources": resources}).encode()
        self.send_response(404 if resources is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
