"""What is loaded of kubernetes_asyncio."""

import subprocess
import sys

import pytest

LOADED = "{name for name in sys.modules if name.startswith('kubernetes_asyncio')}"


def run(code: str) -> None:
    """Run code in a process that has imported nothing."""
    subprocess.run([sys.executable, "-c", f"import sys\n{code}"], check=True, timeout=60)


def test_reader_loads_no_model() -> None:
    run(f"import watchslo.kube.kubeconfig\nassert not {LOADED}\nassert len(sys.modules) < 1000")


@pytest.mark.parametrize("before", ["", "import kubernetes_asyncio.config\n"])
def test_other_imports_get_the_whole_library(before: str) -> None:
    run(
        f"{before}before = {LOADED}\n"
        "import watchslo.kube.kubeconfig_reader\n"
        f"assert {LOADED} == before\n"
        "from kubernetes_asyncio import client, config\n"
        "assert client.CoreV1Api and client.ApiClient and config.load_kube_config"
    )
