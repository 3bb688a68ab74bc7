"""The reader of kubeconfigs of kubernetes_asyncio, without the rest of the library, which takes 30 MiB of memory.

The packages `kubernetes_asyncio` and `kubernetes_asyncio.client` import a module for each type and each API group of
Kubernetes. While the reader is imported, empty modules stand for both: it needs only `Configuration` of them. Other
imports of the library get the whole one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

LIBRARY = "kubernetes_asyncio"
CLIENT = f"{LIBRARY}.client"


@contextmanager
def _empty_packages() -> Iterator[None]:
    """Import only the modules of the library that are asked for while the context is open, and forget them then."""
    before = _loaded()
    for name in before:
        del sys.modules[name]
    try:
        for name in (LIBRARY, CLIENT):
            spec = find_spec(name)
            assert spec is not None
            sys.modules[name] = module_from_spec(spec)
        yield
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(before)


def _loaded() -> dict[str, Any]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == LIBRARY}


with _empty_packages():
    _client: Any = sys.modules[CLIENT]
    Configuration: Any = import_module(f"{CLIENT}.configuration").Configuration
    _client.Configuration, _client.ApiClient = Configuration, None  # the reader has functions that return an ApiClient
    _reader: Any = import_module(f"{LIBRARY}.config.kube_config")
    ConfigException: Any = _reader.ConfigException
    KubeConfigLoader: Any = _reader.KubeConfigLoader
