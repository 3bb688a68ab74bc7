"""Checks a running instance: that it answers, is ready, has the version of this command, and trusts itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from watchslo.api.part import UnreadableError, decode
from watchslo.api.status import StatusDocument
from watchslo.app.doctor.addresses import Reach, allow, dropped, tcp_reach
from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.app.http_endpoint import HttpEndpoint
from watchslo.errors import ConnectError
from watchslo.timeline.verdict import Level

SUBJECT = "instance"
_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "It requires a valid token; pass one with --token-file.",
    HTTPStatus.FORBIDDEN: "This identity may not read its status; grant it the verb get on the path /.",
}


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """The answers of an instance: whether it is ready or why not, and its status, or the code of its refusal."""

    ready: bool
    reasons: tuple[str, ...]
    status: StatusDocument | int


def instance_findings(instance: RunningInstance, version: str) -> Iterator[DeploymentFinding]:
    """Yield findings about one instance; `version` is that of this command."""
    if instance.ready:
        yield good(SUBJECT, "It is ready.")
    else:
        for reason in instance.reasons or ("It gives no reason.",):
            yield problem(SUBJECT, f"It is not ready: {reason}", "Its log and its page say more.")
    if isinstance(instance.status, StatusDocument):
        yield from _status_findings(instance.status, version)
    else:
        why = _REFUSALS.get(instance.status, "It does not answer as a watchslo daemon; check the URL.")
        yield unchecked(SUBJECT, f"Its status cannot be read. {why}")


def _status_findings(status: StatusDocument, version: str) -> Iterator[DeploymentFinding]:
    running = status.monitor.build.version
    if running != version:
        remedy = "Run the same version, or this command of that version (kubectl exec in the pod)."
        yield warning(SUBJECT, f"It is version {running}, and this command is {version}.", remedy)
    else:
        yield good(SUBJECT, f"It is version {version}, as this command.")
    if not status.monitor.reload_succeeded:
        remedy = "Fix the configuration: `watchslo validate FILE` and its log name the mistake."
        yield problem(SUBJECT, "It refused the last change of its configuration.", remedy)
    if status.monitor.paused:
        yield problem(SUBJECT, "Watching is paused.", "Remove `paused: true` from its configuration.")
    if status.trust is None:
        yield unchecked(SUBJECT, "It has made no self check yet.")
    elif status.trust.level == Level.GOOD:
        yield good(SUBJECT, "Its self checks pass.")
    else:
        found = problem if status.trust.level == Level.BAD else warning
        yield found(
            SUBJECT, f"Can it be trusted? {status.trust.text}", "Its page names each self check and its reason."
        )


async def check_instance(endpoint: HttpEndpoint, version: str) -> list[DeploymentFinding]:
    """Ask whether it is ready, and for its status."""
    try:
        code, body = await endpoint.get("/readyz")
        status, document = await endpoint.get("/api/v1/status")
    except ConnectError as error:
        if await tcp_reach(endpoint.place) is Reach.DROPPED:
            where = endpoint.place
            return [problem(SUBJECT, f"{where}: {dropped(where)}", allow(where, "Ingress"))]
        return [
            problem(SUBJECT, f"{endpoint.place}: {error}.", "Check --instance, and that `watchslo run` runs there.")
        ]
    ready = code == HTTPStatus.OK
    reasons = () if ready else tuple(body.decode(errors="replace").splitlines())
    return [*instance_findings(RunningInstance(ready, reasons, _decoded(status, document)), version)]


def _decoded(code: int, document: bytes) -> StatusDocument | int:
    if code != HTTPStatus.OK:
        return code
    try:
        return decode(document, StatusDocument)
    except UnreadableError:
        return HTTPStatus.OK
