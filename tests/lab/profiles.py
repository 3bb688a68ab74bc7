"""Healthy minutes: the shipped profiles with their rights and rules on the same cluster, which must stay silent."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.clients import acting
from tests.lab.figures import shares
from tests.lab.ground import traffic
from tests.lab.monitoring import shipped as shipped_monitoring
from tests.lab.readers import Readers, Report, of_instance
from tests.lab.statements import GOOD
from tests.support.control_plane import HOST, ControlPlane, Port
from tests.support.daemon import Daemon, config_file, start_all
from tests.support.daemonset import PROFILES, kubeconfig, profile_of, shipped
from tests.support.high_availability import HighAvailability
from tests.support.writer import pod

NODES = ("night-node-0", "night-node-1")
PODS = "/api/v1/namespaces/default/pods"
POD_SECONDS = 1.0
READ_SECONDS = 5.0
SHARE = 0.25  # of the usual changes: ten instances on one machine must not be late themselves
OVERLOADED = "monitor_problem"
SETTLED_SECONDS = 180.0  # the start is not judged: `node` waits for up to two minutes before its first request


@dataclass(frozen=True, slots=True)
class Instance:
    """One pod of a profile: its configuration, the variables that its pod sets, and the address that it asks."""

    config: Mapping[str, Any]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """What all instances of a profile said in the healthy minutes.

    `shares` has the share of each verdict in all polls, `texts` a sentence for each verdict but `good`; `pending` and
    `fired` name the alerts that did not, and did, become firing.
    """

    profile: str
    instances: int
    polls: int
    shares: Mapping[str, float]
    texts: Mapping[str, str]
    pending: frozenset[str]
    fired: frozenset[str]

    @property
    def kept_up(self) -> bool:
        """Whether no instance said that it could not keep up itself."""
        return OVERLOADED not in self.shares

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each thing that was wrong, without a final stop."""
        yield from (f"{name} fired in healthy minutes" for name in sorted(self.fired))
        for word, share in self.shares.items():
            if word != GOOD:
                yield f"{word} was said in {share:.1%} of the healthy time: {self.texts.get(word, '')}".rstrip(": ")


def pods_of_nodes(plane: ControlPlane) -> contextlib.AbstractContextManager[None]:
    """Create and delete pods that are bound to nodes: `node` watches nothing else."""

    def create(number: int) -> None:
        name = f"of-node-{number % (2 * len(NODES))}"
        with plane.writer() as writer:
            body = pod(name)
            body["spec"]["nodeName"] = NODES[number % len(NODES)]
            writer.create(PODS, body)
            writer.delete(f"{PODS}/{name}")

    return acting(POD_SECONDS / len(NODES), create)


def watch_profiles(folder: Path, lab: HighAvailability, minutes: float, report: Report) -> list[ProfileFigures]:
    """Run all profiles at once for some minutes."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(traffic(folder, lab, SHARE))
        stack.enter_context(pods_of_nodes(lab.plane))
        watched = {
            profile: _Watched(stack, folder / profile, lab, profile, instances, report)
            for profile, instances in _instances(lab).items()
        }
        time.sleep(SETTLED_SECONDS)
        since = time.monotonic()
        report(f"--- {minutes:g} healthy minutes begin")
        time.sleep(60.0 * minutes)
        return [one.figures(profile, since) for profile, one in watched.items()]


class _Watched:
    """The instances of one profile, with its own Prometheus and Alertmanager, as in a cluster of its own."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        folder: Path,
        lab: HighAvailability,
        profile: str,
        instances: Sequence[Instance],
        report: Report,
    ) -> None:
        folder.mkdir()
        ports = [Port() for _ in instances]
        for port in ports:
            stack.callback(port.release)
        urls = [f"http://{HOST}:{port.number}" for port in ports]
        account = kubeconfig(lab, profile)
        pods = zip(instances, ports, strict=True)
        daemons = [_daemon(folder / str(port.number), account, instance, port) for instance, port in pods]
        start_all(stack, daemons)
        shipped = (PROFILES / profile / "rules.yaml", PROFILES / profile / "warnings/rules.yaml")
        rules = [yaml.safe_load(path.read_text())["spec"] for path in shipped]
        prometheus, manager = shipped_monitoring(stack, folder / "monitoring", rules, f"watchslo-{profile}", urls)
        verdicts = {f"{profile} {number}": of_instance(daemon) for number, daemon in enumerate(daemons)}
        self._readers = stack.enter_context(Readers(verdicts, prometheus, manager, report, READ_SECONDS))

    def figures(self, profile: str, since: float) -> ProfileFigures:
        record = self._readers.record()
        said = [one for statements in record.verdicts.values() for one in statements if one.at >= since]
        fired = {alert.name for one in record.alerts if one.at >= since for alert in one.firing}
        return ProfileFigures(
            profile,
            len(record.verdicts),
            len(said),
            shares(said),
            {one.word: one.text for one in said if one.word != GOOD},
            frozenset(self._readers.pending - fired),
            frozenset(fired),
        )


def _instances(lab: HighAvailability) -> dict[str, list[Instance]]:
    """Return the pods of each profile, as many as it has on three control-plane nodes."""
    return {
        "control-plane": [Instance(profile_of(member.url), {}) for member in lab.members],
        "managed": [Instance(shipped("managed"), {})] * 2,
        "node": [Instance(shipped("node"), {"NODE_NAME": node}) for node in NODES],
        "sharded": [Instance(shipped("sharded"), {"POD_NAME": f"watchslo-{number}"}) for number in range(3)],
    }


def _daemon(folder: Path, account: Path, instance: Instance, port: Port) -> Daemon:
    folder.mkdir()
    config = config_file(folder, **instance.config)
    listen = f"{HOST}:{port.number}"
    own = ("--config", config, "--kubeconfig", account, "--listen", listen)
    return Daemon(folder / "daemon", *own, env=dict(os.environ) | dict(instance.env))
