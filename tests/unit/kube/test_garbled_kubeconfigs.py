"""Any value in place of any part of a kubeconfig is accepted or refused, and nothing else happens."""

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from watchslo.errors import ConnectError
from watchslo.kube.credentials import Access
from watchslo.kube.kubeconfig import connect_by_kubeconfig

VALID: dict[str, Any] = {
    "apiVersion": "v1",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://a.example:6443",
                "tls-server-name": "b.example",
                "proxy-url": "http://proxy.example:3128",
                "insecure-skip-tls-verify": True,
                "certificate-authority-data": "",
            },
        }
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "token": "t",
                "as": "a",
                "as-groups": ["g"],
                "as-user-extra": {"e": ["f"]},
                "username": "",
                "client-certificate-data": "",
                "auth-provider": {"name": "oidc", "config": {"id-token": "x.e30.x"}},
            },
        }
    ],
}
ODD_TEXTS = (
    "http://[x",
    "https://a..b",
    "https://a:99999",
    "https://a b",
    "//",
    "\x00",
    "é",
    "💥",
    "a\nb",
    "=",
    "/dev/zero",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD_TEXTS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each part of a document."""
    yield path
    parts = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, part in parts:
        yield from places(part, (*path, key))


def with_value(path: tuple[str | int, ...], value: object) -> object:
    """Return the valid kubeconfig with another value at a place."""
    if not path:
        return value
    document = part = copy.deepcopy(VALID)
    for key in path[:-1]:
        part = part[key]  # type: ignore[index]
    part[path[-1]] = value  # type: ignore[index]
    return document


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("garbled") / "kubeconfig"


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(place=("users", 0, "user", "as"), value=5)
@example(place=("clusters", 0, "cluster", "server"), value="https://a..b")
@given(place=st.sampled_from([*places(VALID)]), value=VALUES)
def test_any_value_anywhere_is_accepted_or_refused(path: Path, place: tuple[str | int, ...], value: object) -> None:
    path.write_text(json.dumps(with_value(place, value)))
    assert isinstance(accepted_or_refused(path), Access | ConnectError)


def accepted_or_refused(path: Path) -> Access | ConnectError:
    """Return the access by a kubeconfig, or why there is none."""
    try:
        return asyncio.run(connect_by_kubeconfig([str(path)], None, {}).access())
    except ConnectError as error:
        return error
