"""Rights: what must watchslo be allowed to read, and which accounts may read what it shows?

One control plane, which logs the requests of each account, serves all scenarios.
"""

import contextlib
import secrets
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.audit import AuditLog
from tests.support.busy import steady_writes
from tests.support.certs import Pair
from tests.support.control_plane import EVERYTHING_READABLE, MAY_SCRAPE, REVIEWS, ControlPlane, Etcd
from tests.support.daemon import LOOK_SECONDS, Daemon, asking, config_file, start_all
from tests.support.process import eventually
from tests.support.reader import Answer, Reader
from watchslo.config.model import Config
from watchslo.rbac.permissions import required_permissions
from watchslo.rbac.watched_resources import watch_permissions

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WATCHES = ("configmaps", "pods", "deployments.apps")
CONFIGURED: dict[str, Any] = {
    "cluster": "audited",
    "watch": [{"resource": resource} for resource in WATCHES],
    "kubernetes": {"apiservers": "each"},
    "metrics": "full",
}
TICK_NAME = "watchslo-reads-nothing"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, in one namespace or in all; on one name only, if there is one."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> dict[str, list[str]]:
        names = {"resourceNames": [self.name]} if self.name else {}
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb], **names}

    def permits(self, entry: dict[str, Any]) -> bool:
        """Return True if an entry of the audit log used this right."""
        asked = entry["objectRef"]
        return (
            (self.verb, self.group, self.resource) == (entry["verb"], asked.get("apiGroup", ""), asked["resource"])
            and self.namespace in ("", asked.get("namespace"))
            and self.name in ("", asked.get("name"))
        )


def rights() -> list[Right]:
    """Return the rights that `watchslo rbac` writes for this configuration, one for each verb."""
    config = Config.model_validate(CONFIGURED)
    return [
        Right(verb, need.scope.group, need.scope.resource, need.scope.namespace or "", need.scope.name or "")
        for need in required_permissions(config, watch_permissions(config, None))
        for verb in sorted(need.verbs)
    ]


@dataclass(frozen=True, slots=True)
class Missing:
    """A right that a daemon lacks: the event in its log, words of the message, and the watch or the ticks."""

    right: Right
    event: str
    words: str
    on: str | None = None

    def is_named(self, daemon: Daemon) -> bool:
        entries = [entry for entry in daemon.log(self.event) if entry["reason"] == "forbidden"]
        return any(
            self.words in entry["message"] and self.on in (None, entry.get("watch"), entry.get("on"))
            for entry in entries
        )


PEERS = ("discovery.k8s.io", "endpointslices", "default")
MISSING = {  # by daemon
    "first": (
        Missing(Right("list", "", "configmaps"), "list_failed", "may not list", "configmaps"),
        Missing(Right("watch", "", "pods"), "watch_closed", "may not watch", "pods"),
        Missing(Right("watch", "", "events", "default", TICK_NAME), "storage_unknown", "may not watch"),
        Missing(Right("list", "coordination.k8s.io", "leases", "kube-system"), "apiservers_uncounted", "leases"),
    ),
    "second": (
        Missing(Right("list", "", "pods"), "list_failed", "may not list", "pods"),
        Missing(Right("list", "", "events", "default", TICK_NAME), "tick_failed", "may not list", "events"),
        Missing(Right("list", *PEERS), "apiservers_unknown", "endpointslices"),
    ),
    "third": (
        Missing(Right("watch", "", "configmaps"), "watch_closed", "may not watch", "configmaps"),
        Missing(Right("list", "apps", "deployments"), "list_failed", "may not list", "deployments.apps"),
        Missing(Right("watch", *PEERS), "apiservers_unwatched", "endpointslices"),
    ),
    "fourth": (Missing(Right("watch", "apps", "deployments"), "watch_closed", "may not watch", "deployments.apps"),),
}


class Audited:
    """A control plane that logs the requests of each account."""

    def __init__(self, plane: ControlPlane, log: AuditLog) -> None:
        self.plane = plane
        self._log = log

    def account(self, name: str, granted: Sequence[Right]) -> Path:
        """Create a service account with exactly these rights; return its kubeconfig."""
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        with self.plane.writer() as writer:
            writer.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
            for at, kind, rules in self._roles(granted):
                role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
                writer.create(f"{at}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
                body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
                writer.create(f"{at}/{kind.lower()}bindings", body)
            for right in granted:
                self.plane.until_permitted("default", name, right.rule, right.namespace)
            token = writer.service_account_token("default", name)
        return self.plane.kubeconfig(name, {"token": token})

    def grant(self, name: str, granted: Sequence[Right]) -> None:
        """Replace the rights of an account."""
        with self.plane.writer() as writer:
            for at, kind, rules in self._roles(granted):
                writer.patch(f"{at}/{kind.lower()}s/{name}", {"rules": rules})

    def _roles(self, granted: Sequence[Right]) -> Iterator[tuple[str, str, list[Any]]]:
        """Yield path, kind and rules of a role for each namespace in which watchslo needs rights."""
        for namespace in sorted({right.namespace for right in rights()}):
            rules = [right.rule for right in granted if right.namespace == namespace]
            yield (f"{RBAC}/namespaces/{namespace}", "Role", rules) if namespace else (RBAC, "ClusterRole", rules)

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the requests of an account for resources."""
        return [entry for entry in self._log.entries(name) if "objectRef" in entry]

    def refused(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries(name) if entry["responseStatus"]["code"] == 403]


@pytest.fixture(scope="module")
def audited(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    log = AuditLog(folder)
    with (
        Etcd(folder, assets.etcd) as etcd,
        ControlPlane(folder, assets.kube_apiserver, etcd, flags=log.flags) as plane,
    ):
        yield Audited(plane, log)


def daemon(audited: Audited, folder: Path, name: str, granted: Sequence[Right]) -> Daemon:
    folder.mkdir()
    config = config_file(folder, **CONFIGURED)
    return Daemon(folder, "--config", config, "--kubeconfig", audited.account(name, granted))


def test_every_right_is_used_and_all_are_sufficient(audited: Audited, tmp_path: Path) -> None:
    with daemon(audited, tmp_path / "least", "least", rights()) as least:
        least.until_measuring(*WATCHES)

        def unused() -> list[Right]:
            entries = audited.entries("least")
            return [right for right in rights() if not any(map(right.permits, entries))]

        least.process.until(lambda: not unused(), "every right is used", every=1.0)
        with steady_writes(audited.plane):  # continuously: an event received by a late loop is no sample
            least.until_samples("configmaps", 1)
    assert audited.refused("least") == []
    beyond = [
        (entry["verb"], entry["objectRef"])
        for entry in audited.entries("least")
        if not any(right.permits(entry) for right in rights())
    ]
    assert beyond == []


def test_missing_rights_are_named_and_hurt_nothing_else_until_granted(audited: Audited, tmp_path: Path) -> None:
    absent = {name: {row.right for row in rows} for name, rows in MISSING.items()}
    assert {*rights()} == set().union(*absent.values()), "each right is missing once"
    daemons = {
        name: daemon(audited, tmp_path / name, name, [right for right in rights() if right not in absent[name]])
        for name in MISSING
    }
    with contextlib.ExitStack() as stack:
        start_all(stack, daemons.values())
        for name, lacking in daemons.items():
            until_named(lacking, MISSING[name])
            refused = audited.refused(name)
            assert refused
            assert [entry for entry in refused if not any(right.permits(entry) for right in absent[name])] == []
        ticks = daemons["second"].status()["domains"][0]["ticksOn"]
        assert sorted(ticks) == ["configmaps", "deployments.apps"], "what it may list instead of events"
        for name in daemons:
            audited.grant(name, rights())
        for lacking in daemons.values():
            lacking.until_measuring(*WATCHES)


def until_named(lacking: Daemon, missing: Sequence[Missing]) -> None:
    """Wait until a daemon names all its missing rights, and measures what does not need them."""
    for row in missing:
        lacking.process.until(lambda: row.is_named(lacking), f"named: {row}", LOOK_SECONDS)  # noqa: B023 - used at once
    away = {row.on for row in missing}
    lacking.until_measuring(*(watch for watch in WATCHES if watch not in away))
    lacking.until_ready()

    def refused() -> set[tuple[str, str]]:
        streams = [lacking.watches_by_name()[watch] for watch in WATCHES if watch in away]
        return {(stream["state"], stream["lastFailure"]["reason"]) for stream in streams}

    lacking.process.until(lambda: refused() == {("away", "forbidden")}, "all refused ones are away", LOOK_SECONDS)


# Access to what watchslo serves


MAY_LOOK: dict[str, list[str]] = {"nonResourceURLs": ["/"], "verbs": ["get"]}
GUARDED = ("/metrics", "/")
EXPECTED = {  # of the guarded paths
    "scraper": [200, 403],
    "onlooker": [403, 200],
    "without rights": [403, 403],
    "for another audience": [401, 401],  # as a pod mounts it: the apiserver wants one of its own
    "admin": [200, 200],
}


@dataclass(frozen=True, slots=True)
class Protected:
    """A protected daemon, the tokens of its clients by name, and the files of its certificate."""

    daemon: Daemon
    plane: ControlPlane
    pair: Pair
    tokens: dict[str, str]

    def grant_reviews(self) -> None:
        """Grant the daemon reviews, which it does not have at first."""
        with self.plane.writer() as writer:
            writer.patch(f"{RBAC}/clusterroles/protected", {"rules": [EVERYTHING_READABLE, REVIEWS]})
        eventually(lambda: self.reader("scraper").status("/metrics") == 200, "allowed to scrape", LOOK_SECONDS)

    def reader(self, token: str | None = None) -> Reader:
        return Reader(self.daemon.url, self.plane.ca, self.tokens.get(token, token) if token else None)

    def answer(self, path: str, token: str | None = None) -> Answer:
        """Return an answer other than 503: unknown tokens wait for a rate limit, and an apiserver may be slow."""

        def answered() -> Answer | None:
            answer = self.reader(token).ask(path)
            return None if answer.status == 503 else answer

        return eventually(answered, f"a review for {path}", LOOK_SECONDS)


@pytest.fixture(scope="module")
def protected(audited: Audited, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    """A daemon that starts without the right to reviews."""
    plane, folder = audited.plane, tmp_path_factory.mktemp("protected")
    pair = Pair(folder / "tls.crt", folder / "tls.key")
    plane.authority.server("watchslo").replace(pair)
    tokens = {
        "scraper": plane.service_account("scraper", MAY_SCRAPE),
        "onlooker": plane.service_account("onlooker", MAY_LOOK),
        "without rights": plane.service_account("without-rights"),
        "admin": plane.token,
        "watchslo": plane.service_account("protected", EVERYTHING_READABLE),
    }
    with plane.writer() as writer:
        tokens["for another audience"] = writer.service_account_token("default", "scraper", "watchslo")
    server = {"tls": {"certFile": str(pair.certificate), "keyFile": str(pair.key)}, "authorization": "kubernetes"}
    file = config_file(folder, watch=[{"resource": "configmaps"}], server=server)
    kubeconfig = plane.kubeconfig("protected", {"token": tokens["watchslo"]})
    with Daemon(folder, "--log-level", "debug", "--config", file, "--kubeconfig", kubeconfig) as daemon:
        yield Protected(daemon, plane, pair, tokens)


def test_only_clients_with_the_right_to_a_path_may_read_it(protected: Protected) -> None:
    daemon = protected.daemon
    daemon.process.until(lambda: protected.reader("admin").status("/metrics") == 503, "no review")
    said = daemon.until_said("reviews_failed", reason="forbidden")
    assert "bind the ClusterRole system:auth-delegator to it" in said["message"]
    protected.grant_reviews()

    for path in ("/healthz", "/readyz"):
        eventually(lambda: protected.reader().status(path) == 200, path, LOOK_SECONDS)  # noqa: B023 - used at once
    unknown = protected.tokens["scraper"][:-4], secrets.token_urlsafe(40), None
    refused = [protected.answer("/metrics", token) for token in unknown]
    assert [answer.status for answer in refused] == [401] * 3
    assert {answer.headers["www-authenticate"] for answer in refused} == {"Bearer"}
    answers = {name: [protected.answer(path, name) for path in GUARDED] for name in EXPECTED}
    assert {name: [one.status for one in row] for name, row in answers.items()} == EXPECTED
    refused += [one for row in answers.values() for one in row if one.status != 200]
    assert {one.text for one in refused} == {'{"detail":"Unauthorized"}', '{"detail":"Forbidden"}'}
    assert [value for one in refused for value in one.headers.values() if "watchslo" in value] == []
    assert [name for name, token in protected.tokens.items() if token in daemon.said] == []


def test_top_presents_a_token(protected: Protected, tmp_path: Path) -> None:
    protected.grant_reviews()
    once, trusted = ("top", "--once", protected.daemon.url), ("--ca-file", protected.plane.ca)
    files = {name: tmp_path / name for name in ("onlooker", "without rights")}
    for name, file in files.items():
        file.write_text(protected.tokens[name] + "\n")
    protected.answer("/api/v1/status", "onlooker")

    shown = asking(*once, *trusted, "--token-file", files["onlooker"])
    assert (shown.returncode, shown.stdout.splitlines()[1].split()[0]) == (0, "configmaps")
    for options, remedy in (
        ((*trusted, "--token-file", files["without rights"]), "may not read the status; grant it the verb get on"),
        (trusted, "it requires a valid token; pass one with --token-file"),
        (("--token-file", files["onlooker"]), "pass its CA with --ca-file"),
    ):
        done = asking(*once, *options)
        assert done.returncode == 2
        assert remedy in done.stderr


def test_new_certificate_is_shown_once_its_key_is_there(protected: Protected) -> None:
    reader, daemon = protected.reader(), protected.daemon
    first = reader.certificate()
    second = protected.plane.authority.server("second")
    second.certificate.replace(protected.pair.certificate)
    daemon.until_said("certificate_refused")
    assert reader.certificate() == first
    second.key.replace(protected.pair.key)
    daemon.process.until(lambda: reader.certificate() != first, "the second certificate shown")
    assert len(daemon.log("certificate_renewed")) == 1

    for _ in range(10):
        with socket.create_connection(reader.address) as plain, contextlib.suppress(ConnectionError):
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"watchslo" not in plain.recv(65536)
    eventually(lambda: reader.status("/healthz") == 200, "healthy", LOOK_SECONDS)
    assert daemon.log("library_complains") == [], "plain HTTP on the port of TLS is no complaint"


def test_known_clients_may_read_while_the_apiserver_hangs(protected: Protected) -> None:
    protected.grant_reviews()
    stranger, apiserver = protected.reader("unseen"), protected.plane.apiservers[0].process
    apiserver.signal(signal.SIGSTOP)
    try:
        answer = stranger.ask("/metrics")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "the apiserver gives no access review" in answer.text
        assert protected.answer("/metrics", "scraper").status == 200
        assert protected.reader().status("/metrics") == 401
    finally:
        apiserver.signal(signal.SIGCONT)
    eventually(lambda: stranger.status("/metrics") == 401, "reviews again", LOOK_SECONDS)
