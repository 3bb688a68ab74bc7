"""Real kine servers, which emulate etcd on a SQL database as k3s uses them, and the databases under them.

A `Kine` takes the place of `Etcd` before a control plane:

    with Kine(folder, kine, sqlite(folder)) as storage:
        with ControlPlane(folder, assets.kube_apiserver, storage) as plane: ...

Several kine servers on one `Postgres` are k3s with several servers: each apiserver has a kine of its own, added with
`plane.add(second.url)`. kine numbers changes by the ids of the rows in one table, and finds the rows that other kine
servers inserted by a poll once a second.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.support.background import Background
from tests.support.control_plane import HOST, Port
from tests.support.daemon import Scrape
from tests.support.process import PATIENCE_SECONDS, Process, Started

SERVERS = Path("/usr/lib/postgresql")  # where Debian's package has one folder of programs for each version
ACCOUNT = "postgres"  # made by the package; a Postgres server refuses to run as root
SUPERUSER = "postgres"
DATABASE = "kine"
QUERY_SECONDS = PATIENCE_SECONDS
CONNECTIONS = 300  # each kine opens one for each request under way
NO_COMPACTION = "24h"
POLL = re.compile(rb"WHERE id > \$1\).*ORDER BY id ASC LIMIT \d+", re.DOTALL)
"""The statement of the poll loop; the start of a watch asks the same without a limit."""
STATEMENT_BYTES = 4096  # more than the poll statement has
READ_AT_ONCE = 1 << 16
ACCEPT_SECONDS = 0.2


def sqlite(folder: Path) -> str:
    """Return kine's endpoint of a SQLite file, which kine makes; one kine server may use it."""
    return f"sqlite://{folder / 'kine.sqlite'}?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"


class Postgres(Started):
    """A Postgres server without fsync, in a folder of its own.

    As root it runs under the account of its package. That account may not enter the folders of tests, so the data are
    in a temporary folder.
    """

    def __init__(self, folder: Path, name: str = "postgres") -> None:
        self._port = Port()
        self.address = (HOST, self._port.number)
        self.endpoint = endpoint(self._port.number)
        self._home = Path(tempfile.mkdtemp(prefix="watchslo-postgres-"))
        settings = {
            "listen_addresses": HOST,
            "port": self._port.number,
            "unix_socket_directories": "",
            "max_connections": CONNECTIONS,
            "fsync": "off",
            "synchronous_commit": "on",  # else a commit is visible before it is answered
            "full_page_writes": "off",
            "jit": "off",  # else the first run of a statement may take a second
        }
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command: list[str | Path] = [*_as_account(), _program("postgres"), "-D", self._home / "data", *flags]
        self.process = Process(folder, name, command)

    def start(self) -> None:
        """Start it, with an empty database the first time, and wait until it answers."""
        if not (self._home / "data").exists():
            self._make_data()
        self.process.start()
        self.process.until(self._answers, "answering")

    def close(self) -> None:
        """Stop it and remove its data."""
        if self.process.running:
            self.process.signal(signal.SIGINT)  # at SIGTERM it would wait until all clients are gone
        self.process.stop()
        self._port.release()
        shutil.rmtree(self._home, ignore_errors=True)

    def _make_data(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self._home, ACCOUNT)
        command = [*_as_account(), _program("initdb"), "-D", str(self._home / "data"), "-U", SUPERUSER]
        command += ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(command, cwd=self._home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"initdb failed: {done.stdout}{done.stderr}"

    def _answers(self) -> bool:
        command = [_program("pg_isready"), "-q", "-h", HOST, "-p", str(self._port.number)]
        return subprocess.run(command, check=False, timeout=QUERY_SECONDS).returncode == 0


class Kine(Started):
    """One kine server on the database at an endpoint, which may be that of a proxy before the database."""

    def __init__(self, folder: Path, program: Path, database: str, name: str = "kine") -> None:
        self._client = Port()
        self.url = f"http://{HOST}:{self._client.number}"
        flags = {
            "listen-address": f"{HOST}:{self._client.number}",
            "endpoint": database,
            "metrics-bind-address": "0",
            "compact-interval": NO_COMPACTION,
        }
        self.process = Process(folder, name, [program, *(f"--{flag}={value}" for flag, value in flags.items())])

    def start(self) -> None:
        """Start it and wait until it listens; after `process.stop()` it starts again with its data."""
        self.process.start()
        self.process.until(self._listens, "listening")

    def close(self) -> None:
        self.process.stop()
        self._client.release()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._client.number)) == 0


class PollProxy(Background):
    """Forwards connections of a kine server to Postgres, and can stop the poll that finds new rows.

    All watches of a kine server get their events from one poll loop. It asks by one prepared statement on a connection
    of its own, so nothing else notices when that connection stands still: reads and writes continue. kine reaches
    it at `endpoint`.
    """

    def __init__(self, to: Postgres) -> None:
        super().__init__()
        self._port = Port()
        self._to = to
        self._polling = threading.Event()
        self._polling.set()
        self._listener = socket.create_server((HOST, self._port.number))
        self.endpoint = endpoint(self._port.number)

    def __exit__(self, *error: object) -> None:
        self._polling.set()
        super().__exit__(*error)
        self._listener.close()
        self._port.release()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the poll loop wait for an answer while the context is open."""
        self._polling.clear()
        try:
            yield
        finally:
            self._polling.set()

    def _run(self) -> None:
        self._listener.settimeout(ACCEPT_SECONDS)
        with contextlib.ExitStack() as connections:
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    client = connections.enter_context(self._listener.accept()[0])
                    client.settimeout(None)
                    server = connections.enter_context(socket.create_connection(self._to.address))
                    for work in (partial(self._ask, client, server), partial(_forward, server, client)):
                        threading.Thread(target=work, daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        """Forward the questions of one connection; those of the poll loop wait while it is stopped."""
        polls, asked = False, b""
        with contextlib.suppress(OSError):
            while data := client.recv(READ_AT_ONCE):
                asked = (asked + data)[-STATEMENT_BYTES:]
                polls = polls or POLL.search(asked) is not None
                if polls:
                    self._polling.wait()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


def _forward(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(READ_AT_ONCE):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


def is_kine(scrape: Scrape) -> bool:
    """Return whether a daemon has found that the storage is kine."""
    return scrape.values("watchslo_storage_info", kind="kine") == [1.0]


def endpoint(port: int) -> str:
    """Return kine's endpoint of a Postgres server, or a proxy before one, at a port."""
    return f"postgres://{SUPERUSER}@{HOST}:{port}/{DATABASE}?sslmode=disable"


def _as_account() -> list[str]:
    """Return the words before a command of Postgres that keep it from running as root.

    A change of the account clears the signal that `launch.py` asked for, so it is asked for again.
    """
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam(ACCOUNT)
    user = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return [_found("setpriv"), *user, "--pdeathsig=KILL", "--"]


def _program(name: str) -> str:
    """Return the path of a program of the newest Postgres that is installed."""
    installed = sorted(SERVERS.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    return str(installed[-1]) if installed else _found(name)


def _found(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"there is no {name} on this machine: install the packages of .ci/install"
    return path
