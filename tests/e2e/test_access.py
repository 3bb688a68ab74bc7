"""Access to what watchslo serves: TLS, tokens reviewed by the cluster, and the commands that present a token."""

import contextlib
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.certs import Authority, Pair
from tests.support.control_plane import EVERYTHING_READABLE, MAY_SCRAPE, REVIEWS, ControlPlane
from tests.support.daemon import Daemon, Scrape, asking, config_file
from tests.support.process import eventually
from tests.support.reader import Answer, Reader
from watchslo.monitor.evaluator import SNAPSHOT_SECONDS
from watchslo.serve.auth_cache import ALLOWED_SECONDS, RETRY_SECONDS

# The server


MAY_LOOK: dict[str, list[str]] = {"nonResourceURLs": ["/"], "verbs": ["get"]}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WATCHED = ["configmaps", "leases.coordination.k8s.io"]
GUARDED = ["/metrics", "/", "/api/v1/status", "/openapi.json", "/nowhere"]
WAIT_SECONDS = 120.0  # immediate on an idle machine
TOKEN_CACHE_SECONDS = 10.0  # an apiserver caches a valid token this long
PROTECTED = ("--authorization", "kubernetes")  # as in the manifests


@dataclass(frozen=True, slots=True)
class Place:
    """A protected daemon, the tokens of its clients by name, and the files of its certificate."""

    daemon: Daemon
    plane: ControlPlane
    authority: Authority
    pair: Pair
    tokens: dict[str, str]

    def reader(self, token: str | None = None) -> Reader:
        return Reader(self.daemon.url, self.authority.ca, self.tokens.get(token, token) if token else None)


def config(folder: Path, **server: object) -> Path:
    return config_file(folder, watch=[{"resource": name} for name in WATCHED], server=server)


@pytest.fixture(scope="module")
def place(killable_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    plane, folder = killable_plane, tmp_path_factory.mktemp("protected")
    authority, pair = Authority(folder / "ca"), Pair(folder / "tls.crt", folder / "tls.key")
    authority.server("watchslo").replace(pair)
    tokens = {
        "scraper": plane.service_account("protected-scraper", MAY_SCRAPE),
        "steady": plane.service_account("protected-steady", MAY_SCRAPE),
        "leaving": plane.service_account("protected-leaving", MAY_SCRAPE),
        "without rights": plane.service_account("protected-without-rights"),
        "dismissed": plane.service_account("protected-dismissed", MAY_LOOK),
        "onlooker": plane.service_account("protected-onlooker", MAY_LOOK),
        "admin": plane.token,
        "watchslo": plane.service_account("protected", EVERYTHING_READABLE, REVIEWS),
    }
    file = config(folder, tls={"certFile": str(pair.certificate), "keyFile": str(pair.key)}, authorization="kubernetes")
    kubeconfig = plane.kubeconfig("protected", {"token": tokens["watchslo"]})
    with Daemon(folder, "--log-level", "debug", "--config", file, "--kubeconfig", kubeconfig) as daemon:
        made = Place(daemon, plane, authority, pair, tokens)
        daemon.process.until(lambda: made.reader().status("/readyz") == 200, "ready")
        eventually(lambda: made.reader("scraper").status("/metrics") == 200, "allowed to scrape")
        yield made


def reviewed(reader: Reader, path: str) -> Answer:
    """Return the answer once a review was made: unknown tokens wait for a rate limit, and an apiserver may be slow."""

    def had() -> Answer | None:
        answer = reader.ask(path)
        return None if answer.status == 503 else answer

    return eventually(had, f"a review for {path}", 0.5)


def assert_leaks_nothing(answer: Answer, detail: str) -> None:
    assert answer.text == f'{{"detail":"{detail}"}}'
    assert not any("watchslo" in value for value in answer.headers.values())


def test_server_answers_each_client_by_its_rights(place: Place) -> None:
    for reader in (place.reader(), place.reader(secrets.token_urlsafe(40)), place.reader(place.tokens["scraper"][:-4])):
        for path in GUARDED:
            answer = reviewed(reader, path)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert_leaks_nothing(answer, "Unauthorized")
        for path in ("/healthz", "/readyz"):  # at idle priority it may stand still for longer than is healthy
            eventually(lambda: reader.status(path) == 200, path, 0.5)  # noqa: B023 - used at once
    expected = {
        "scraper": [200, 403, 403, 403, 403],
        "onlooker": [403, 200, 200, 200, 404],
        "without rights": [403] * 5,  # though system:discovery lets every account get /api/*
        "admin": [200, 200, 200, 200, 404],
    }
    for name, statuses in expected.items():
        reader = place.reader(name)
        for path, status in zip(GUARDED, statuses, strict=True):
            answer = reviewed(reader, path)
            assert answer.status == status, (name, path)
            if status == 403:
                assert_leaks_nothing(answer, "Forbidden")


def test_token_for_another_audience_is_refused(place: Place) -> None:
    """As a pod mounts it: watchslo names no audience, so the apiserver wants one of its own."""
    with place.plane.writer() as writer:
        own = writer.service_account_token("default", "protected-scraper")
        other = writer.service_account_token("default", "protected-scraper", "watchslo")
    assert reviewed(place.reader(own), "/metrics").status == 200
    assert reviewed(place.reader(other), "/metrics").status == 401


def test_server_refuses_methods_other_than_get_and_head(place: Place) -> None:
    scraper = place.reader("scraper")
    assert scraper.ask("/metrics", "HEAD").text == ""
    for method in ("POST", "DELETE", "OPTIONS", "PROPFIND"):
        for path in ("/metrics", "/healthz", "/nowhere"):
            answer = scraper.ask(path, method)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert [scraper.ask("/metrics", authorization=said).status for said in ("Basic YTpi", "Bearer", "token")] == [
        401
    ] * 3


def test_reviews_are_cached_and_counted(place: Place) -> None:
    scraper = place.reader("scraper")

    def reviews() -> dict[str, float]:
        time.sleep(SNAPSHOT_SECONDS)  # a scrape may be as old
        scrape = Scrape(reviewed(scraper, "/metrics").text)
        kinds = ("token_review", "access_review")
        return {kind: scrape.total("watchslo_api_requests_total", kind=kind, code="201") for kind in kinds}

    began, before = time.monotonic(), reviews()
    for _ in range(50):
        assert reviewed(scraper, "/metrics").status == 200
    after, passed = reviews(), time.monotonic() - began
    assert before["token_review"] >= before["access_review"] >= 1
    # The minute may have just ended; at idle priority this takes long, and reviews fail.
    assert all(after[kind] - before[kind] <= 1 + passed // RETRY_SECONDS for kind in before)


def test_server_shows_a_new_certificate_only_with_its_key(place: Place) -> None:
    reader, daemon = place.reader(), place.daemon
    first, second, third = reader.certificate(), place.authority.server("second"), place.authority.server("third")
    second.replace(place.pair)
    daemon.process.until(lambda: reader.certificate() != first, "the second certificate shown")
    shown = reader.certificate()
    # The daemon may have read the second certificate without its key as well.
    refused, renewed = (len(daemon.log(event)) for event in ("certificate_refused", "certificate_renewed"))
    third.certificate.replace(place.pair.certificate)
    daemon.process.until(lambda: len(daemon.log("certificate_refused")) == refused + 1, "half a one is refused")
    assert reader.certificate() == shown
    third.key.replace(place.pair.key)
    daemon.process.until(lambda: reader.certificate() != shown, "the third certificate shown")
    counts = [len(daemon.log(event)) for event in ("certificate_refused", "certificate_renewed")]
    assert counts == [refused + 1, renewed + 1]


def test_plain_http_on_the_tls_port_is_refused_without_a_log_entry(place: Place) -> None:
    said = len(place.daemon.said)
    for _ in range(100):
        with (
            socket.create_connection(place.reader().address, WAIT_SECONDS) as plain,
            contextlib.suppress(ConnectionError),
        ):
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"watchslo" not in plain.recv(65536)
    eventually(lambda: place.reader().status("/healthz") == 200, "healthy", 0.5)
    assert "library_complains" not in place.daemon.said[said:]


def test_revoked_token_is_refused_also_while_the_apiserver_hangs(place: Place) -> None:
    steady, leaving, stranger = place.reader("steady"), place.reader("leaving"), place.reader("unseen")
    dismissed = place.reader("dismissed")
    for reader, path in ((steady, "/metrics"), (leaving, "/metrics"), (dismissed, "/api/v1/status")):
        eventually(lambda: reader.status(path) == 200, "allowed", 1.0)  # noqa: B023 - used at once
    allowed = time.monotonic()
    with dismissed.asking("/api/v1/events") as feed:
        assert feed.status == 200
        with place.plane.writer() as writer:
            for name in ("leaving", "dismissed"):
                writer.delete(f"{ACCOUNTS}/protected-{name}")
        # Tokens live ten minutes at least; deleting the account ends them, apart from the caches.
        eventually(lambda: leaving.status("/metrics") == 401, "the revoked token unknown", 1.0)
        eventually(lambda: not feed.readline(), "the feed of a revoked token at its end", 0.0)
    assert reviewed(dismissed, "/api/v1/events").status == 401
    time.sleep(max(0.0, allowed + ALLOWED_SECONDS + 1 - time.monotonic()))

    apiserver = place.plane.apiservers[0].process
    apiserver.signal(signal.SIGSTOP)
    try:
        answer = stranger.ask("/metrics")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "the apiserver gives no access review" in answer.text
        assert "watchslo_" not in answer.text
        assert reviewed(steady, "/metrics").status == 200  # its last review has expired, but allowed it
        assert place.reader().status("/metrics") == 401
    finally:
        apiserver.signal(signal.SIGCONT)
    place.daemon.until_said("reviews_failed")  # no answer, or no new connection
    eventually(lambda: stranger.status("/metrics") == 401, "reviews again", 0.5)


def test_tokens_are_never_logged(place: Place) -> None:
    assert [name for name, token in place.tokens.items() if token in place.daemon.said] == []


def test_daemon_without_review_rights_names_the_missing_role(
    killable_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("reviewless")
    token = killable_plane.service_account("reviewless", EVERYTHING_READABLE)
    kubeconfig = killable_plane.kubeconfig("reviewless", {"token": token})
    with Daemon(folder, "--config", config(folder), "--kubeconfig", kubeconfig, *PROTECTED) as daemon:
        admin = Reader(daemon.url, token=killable_plane.token)
        daemon.until_ready()

        def says() -> bool:
            assert admin.status("/metrics") == 503
            return any(entry["reason"] == "forbidden" for entry in daemon.log("reviews_failed"))

        daemon.process.until(says, "it says which right it lacks", 1.0)
        (said,) = (entry for entry in daemon.log("reviews_failed") if entry["reason"] == "forbidden")
        assert "bind the ClusterRole system:auth-delegator to it" in said["message"]


# `watchslo top`


READ = {"nonResourceURLs": ["/"], "verbs": ["get"]}


def test_top_presents_a_token_to_a_protected_daemon(control_plane: ControlPlane, tmp_path: Path) -> None:
    pair = control_plane.authority.server("top")
    server = {"tls": {"certFile": str(pair.certificate), "keyFile": str(pair.key)}, "authorization": "kubernetes"}
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}], server=server)
    tokens = {
        name: tmp_path / name
        for name, rules in {"top-reader": [READ], "top-stranger": []}.items()
        if (tmp_path / name).write_text(control_plane.service_account(name, *rules) + "\n")
    }
    trusted = ("--ca-file", control_plane.ca)

    with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        reader = Reader(daemon.url, control_plane.ca)
        eventually(lambda: reader.status("/readyz") == 200, "ready", every=1.0)
        once = ("top", "--once", daemon.url)
        answers = {
            "reader": asking(*once, *trusted, "--token-file", tokens["top-reader"]),
            "insecure": asking(*once, "--insecure", "--token-file", tokens["top-reader"]),
            "without rights": asking(*once, *trusted, "--token-file", tokens["top-stranger"]),
            "without a token": asking(*once, *trusted),
            "without a CA": asking(*once, "--token-file", tokens["top-reader"]),
        }
    assert {name: done.returncode for name, done in answers.items()} == {
        **dict.fromkeys(("reader", "insecure"), 0),
        **dict.fromkeys(("without rights", "without a token", "without a CA"), 2),
    }
    assert answers["reader"].stdout.splitlines()[1].startswith("configmaps")
    assert "this identity may not read the status; grant it the verb get on" in answers["without rights"].stderr
    assert "it requires a valid token; pass one with --token-file" in answers["without a token"].stderr
    assert "pass its CA with --ca-file" in answers["without a CA"].stderr
