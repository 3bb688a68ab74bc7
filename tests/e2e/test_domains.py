"""Events in an etcd of their own, as large clusters keep them: two sequences of revisions, and neither is mistaken."""

from pathlib import Path

from tests.support.control_plane import ControlPlane
from tests.support.daemon import SAMPLE_SECONDS, Daemon, Scrape, config_file
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
AHEAD = 300  # the main etcd's revisions at the start; the second one's begin with 1
WRITES = 150
LATE_SECONDS = 1.0
WRITTEN = ("configmaps", "events")


def write(plane: ControlPlane, prefix: str, count: int) -> None:
    """So many config maps, and as many events, in turn."""
    involved = {"kind": "Pod", "namespace": "default", "name": "none"}
    with plane.writer() as writer:
        for number in range(count):
            writer.create(CONFIGMAPS, configmap(f"{prefix}-{number}"))
            writer.create(EVENTS, {"metadata": {"name": f"{prefix}-{number}"}, "involvedObject": involved})


def samples(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)


def left_out(scrape: Scrape, **labels: str) -> float:
    """Events that are no samples."""
    return scrape.total("watchslo_unmeasured_events_total", **labels)


def test_each_sequence_has_a_clock_of_its_own(mortal_plane: ControlPlane, tmp_path: Path) -> None:
    plane = mortal_plane
    watches = [{"resource": resource} for resource in ("configmaps", "pods", "events")]
    config = config_file(tmp_path, watch=watches, metrics="full")
    with plane.writer() as writer:
        while (revision := writer.revision(CONFIGMAPS)) < AHEAD:
            writer.create(CONFIGMAPS, configmap(f"ahead-{revision}"))
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps", "pods", "events")
        assert {name: stream["domain"] for name, stream in daemon.streams().items()} == {
            "configmaps": "main",
            "pods": "main",
            "events": "events",
        }
        domains = {domain["name"]: domain for domain in daemon.status()["domains"]}
        assert sorted(domains["main"]["ticksOn"]) == ["configmaps", "pods"]
        assert domains["events"]["ticksOn"] == ["events"]
        before = daemon.scrape()

        written = 0

        def all_judged(scrape: Scrape) -> bool:
            return all(
                samples(scrape, watch) + left_out(scrape, watch=watch) - left_out(before, watch=watch) >= written
                for watch in WRITTEN
            )

        scrape = before
        while any(samples(scrape, watch) <= WRITES / 2 for watch in WRITTEN):  # what a late loop receives is no sample
            write(plane, f"domains-{written}", WRITES)
            written += WRITES
            daemon.until(all_judged, SAMPLE_SECONDS, "all judged")
            scrape = daemon.scrape()
        busy = left_out(scrape, reason="tainted") - left_out(before, reason="tainted")
        assert left_out(scrape) - left_out(before) == busy, "only this machine's own slowness is an excuse"
        for watch in WRITTEN:
            assert scrape.value("watchslo_watch_events_total", watch=watch, type="added") == written
            assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
            p99 = daemon.streams()[watch]["latency"]["windows"][0]["quantiles"][-1]
            assert p99["estimate"] < LATE_SECONDS, p99
        with plane.writer() as writer:
            assert scrape.value("watchslo_resource_version", domain="main") <= writer.revision(CONFIGMAPS)
            assert scrape.value("watchslo_resource_version", domain="events") <= writer.revision(EVENTS)
            assert writer.revision(EVENTS) < writer.revision(CONFIGMAPS)
        assert scrape.total("watchslo_clock_resets_total") == 0
        assert scrape.total("watchslo_order_violations_total") == 0
