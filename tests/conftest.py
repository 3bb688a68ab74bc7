"""What all tests share: reproducible examples, no leaked task, golden files, and real control planes on demand."""

import asyncio
import contextlib
import functools
import gc
import inspect
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support import assets as programs
from tests.support.assets import Assets, AssetsError
from tests.support.control_plane import ControlPlane, Etcd

GOLDEN = Path(__file__).parent / "golden"
YOUNG_GENERATIONS = (
    1  # the objects of a test are young; a full collection after each test would cost more than the tests
)

CLOCKS = {name: getattr(time, name) for name in ("time", "monotonic", "thread_time")}

# No example has a deadline, and CI must run the same examples each time.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile(
    "mutate",
    parent=settings.get_profile("ci"),
    phases=[Phase.explicit, Phase.generate],  # one counterexample is enough, and need not be small
    suppress_health_check=[HealthCheck.differing_executors],  # mutmut runs each test many times in one process
)
settings.load_profile("ci" if "CI" in os.environ else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the golden files instead of comparing with them")
    parser.addoption("--every-version", action="store_true", help="test with every pinned kube-apiserver, not with two")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "version(minor): runs with this kube-apiserver; with --every-version, with each")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("version"):
        every = metafunc.config.getoption("--every-version")
        metafunc.parametrize("minor", [*programs.KUBE_APISERVERS] if every else mark.args)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than the CPUs: some tests wait for processes, sockets or threads."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares a text with the file `tests/golden/NAME`."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), f"{name} changed: if it should, run `make golden` and look at the difference"

    return compare


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "no_leaks")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail a test that leaves a patched clock behind."""
    yield
    left = [name for name, clock in CLOCKS.items() if getattr(time, name) is not clock]
    for name in left:
        setattr(time, name, CLOCKS[name])
    assert not left, f"clocks left set: {left}"


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Fail a coroutine test that leaves a task or an unhandled exception. Set up first, it is torn down last."""
    loop = asyncio.get_running_loop()
    lost: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: None if _is_tls_after_close(context) else lost.append(context))
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)  # a task that was just cancelled ends now
    gc.collect(YOUNG_GENERATIONS)  # a task reports an unhandled exception when it is collected
    leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not leaked, f"tasks left behind: {leaked}"
    assert not lost, f"exceptions lost: {lost}"


def _is_tls_after_close(context: dict[str, Any]) -> bool:
    """Whether uvloop reports that it could not answer the TLS bytes of a connection that is closed: nothing is lost."""
    is_closed = "the handler is closed" in str(context.get("exception"))
    return context["message"] == "Fatal error on SSL protocol" and is_closed


@pytest.fixture(scope="session")
def assets() -> Assets:
    return _found(programs.newest)


@pytest.fixture(scope="session")
def assets_of() -> Callable[[str], Assets]:
    """Return a function that finds the programs of a minor version, such as `1.33`."""
    return lambda minor: _found(functools.partial(programs.of_version, minor=minor))


@pytest.fixture(scope="session")
def control_planes(
    tmp_path_factory: pytest.TempPathFactory, assets_of: Callable[[str], Assets]
) -> Iterator[Callable[[str], ControlPlane]]:
    """Return a function that gives the control plane of a minor version, which starts at its first use.

    All tests of a process share it: use unique names and restore what you change.
    """
    with contextlib.ExitStack() as running:

        @functools.cache
        def start(minor: str) -> ControlPlane:
            found, folder = assets_of(minor), tmp_path_factory.mktemp(f"control-plane-{minor}-")
            etcd = running.enter_context(Etcd(folder, found.etcd))
            return running.enter_context(ControlPlane(folder, found.kube_apiserver, etcd))

        yield start


@pytest.fixture(scope="session")
def control_plane(control_planes: Callable[[str], ControlPlane]) -> ControlPlane:
    """The current apiserver, shared by all tests of a process."""
    return control_planes(programs.KUBE_APISERVER.pins)


@pytest.fixture(scope="session")
def old_control_plane(control_planes: Callable[[str], ControlPlane]) -> ControlPlane:
    """The old apiserver, shared in the same way."""
    return control_planes(programs.OLD_KUBE_APISERVER.pins)


def _found(find: Callable[[Any], Assets]) -> Assets:
    try:
        return find(os.environ)
    except AssetsError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)
