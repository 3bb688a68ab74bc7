"""`watchslo report`: the period, what it asks a daemon or a Prometheus, what it writes, and how it fails."""

import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.conftest import GOLDEN
from tests.support.transcripts import AsyncStep, replay, replay_async
from tests.unit.report.incidents import BEGIN_WALL, QUIET, bodies
from watchslo.app import report as command
from watchslo.app.http_endpoint import DaemonCredentials
from watchslo.app.report import ReportOptions, period_of
from watchslo.errors import ConfigError, ConnectError
from watchslo.report.brief import as_brief
from watchslo.report.html import as_html
from watchslo.report.markdown import as_markdown
from watchslo.report.queries import Asked, queries
from watchslo.rules.settings import RuleSettings

NOW_WALL = BEGIN_WALL + 45 * 60
PODS = {"apiserver": "service", "group": "", "resource": "pods", "watch": "pods"}
STATUS, FEED, SERIES = "/api/v1/status", "/api/v1/events", "/api/v1/series"

Answers = Mapping[str, Any]


def refusal(status: int, body: bytes) -> Callable[[web.Request], web.Response]:
    """Return an endpoint that answers with this status and text."""
    return lambda _: web.Response(status=status, body=body)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr("watchslo.app.report.time.time", lambda: NOW_WALL)
        yield


def daemon_answers(**changed: Any) -> dict[str, Any]:
    status, full, series = bodies()
    feed = b"retry: 2000\n\nevent: full\nid: 1-1\ndata: %b\n\n" % full
    return {STATUS: status, FEED: feed, SERIES: series} | changed


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[str]:
    """Serve these bodies, or statuses, by path; the feed never ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        given = answers.get(request.path, 404)
        given = given(request) if callable(given) else given
        if isinstance(given, web.Response):
            return given
        if isinstance(given, int):
            return web.Response(status=given)
        if request.path != FEED:
            return web.Response(body=given)
        endless = web.StreamResponse()
        await endless.prepare(request)
        for begin in range(0, len(given), 1000):
            await endless.write(given[begin : begin + 1000])
        await endless.write(b"event: delta\n")
        return endless

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def asked(answers: Answers, since: str = "45m", until: str | None = None) -> Any:
    """Return the report of a daemon with these answers."""
    async with serving(answers) as url:
        options = ReportOptions(url)
        return await command._ask_daemon(options, period_of(since, until, NOW_WALL), NOW_WALL)


def covered(words: str) -> str:
    """Return the period of `since [to until]`, in seconds from now, or why it is refused."""
    since, _, until = words.partition(" to ")
    try:
        made = period_of(since, until or None, NOW_WALL)
    except ConfigError as error:
        return str(error)
    return f"{made.since_wall - NOW_WALL:g} to {made.until_wall - NOW_WALL:g}"


def test_periods_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("report-periods.txt", replay((GOLDEN / "report-periods.txt").read_text(), lambda _: covered))


async def test_unusable_answers_are_the_sentences_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    async def begin(server: str) -> AsyncStep:
        asks = {"daemon": TestDaemon.ask_with, "Prometheus": TestPrometheus().ask_with}[server]

        async def step(words: str) -> str:
            path, status, body = re.fullmatch(r"(\S+) (\d*) ?(.*)", words).groups()  # type: ignore[union-attr]
            answer = refusal(int(status or 200), body.encode())
            with pytest.raises(ConnectError, match=r"^http://127\.0\.0\.1:\d+: ") as refused:
                await asks(path, answer)
            return str(refused.value).partition(": ")[2]

        return step

    golden("report-refusals.txt", await replay_async((GOLDEN / "report-refusals.txt").read_text(), begin))


class TestDaemon:
    @staticmethod
    async def ask_with(path: str, answer: object) -> Any:
        return await asked(daemon_answers(**{path: answer}))

    async def test_report_has_what_the_daemon_answers(self) -> None:
        made = await asked(daemon_answers())
        assert [one.watch for one in made.bad_watches] == ["pods"]
        assert all(one.curve.points for one in made.watches)
        assert made.source.startswith("the daemon at http://127.0.0.1:")

    async def test_watch_that_was_removed_in_between_has_no_curve(self) -> None:
        def series(request: web.Request) -> bytes | int:
            return 404 if request.query.get("resource") == "pods" else bodies()[2]

        made = await asked(daemon_answers(**{SERIES: series}))
        assert len(made.watches) == 3

    async def test_feed_without_a_document_is_unusable(self) -> None:
        with pytest.raises(ConnectError, match="the answer is not from a known version of watchslo"):
            await asked(daemon_answers(**{FEED: b"retry: 2000\n\n{}\n\n"}))

    async def test_daemon_that_has_not_judged_yet_is_asked_to_be_asked_again(self) -> None:
        status = json.loads(bodies()[0]) | {"verdict": None}
        with pytest.raises(ConnectError, match="try again in ten seconds"):
            await asked(daemon_answers(**{STATUS: json.dumps(status).encode()}))

    async def test_period_before_the_start_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"the daemon started later, at 2023-11-14 22:00 UTC; pass --prometheus"):
            await asked(daemon_answers(), "2h", "1h")

    async def test_default_address_that_does_not_answer_names_the_other_ways(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            monkeypatch.setattr(command, "DEFAULT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConnectError, match=r"runs; or pass the URL of the daemon, or --prometheus$"):
            await command._ask_daemon(ReportOptions(), period_of("1h", None, NOW_WALL), NOW_WALL)


class TestPrometheus:
    settings = RuleSettings(cluster_label="cluster")

    def answers(self, **found: Sequence[tuple[Mapping[str, str], object]]) -> Callable[[web.Request], bytes]:
        """Return an endpoint that answers each query with series of one value, by what is asked."""
        period = period_of("45m", None, NOW_WALL)
        texts = {query.expression: asked for asked, query in queries(self.settings, period).items()}

        def answer(request: web.Request) -> bytes:
            what = texts.get(request.query["query"])
            samples = found.get(what.value if what else "jobs", [])
            end = float(request.query["end"])
            result = [{"metric": dict(labels), "values": [[end, str(value)]]} for labels, value in samples]
            return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()

        return answer

    async def ask(self, answer: object, **options: Any) -> Any:
        async with serving({"/api/v1/query_range": answer}) as url:
            given = ReportOptions(prometheus=url, cluster_label="cluster", **options)
            return await command._ask_prometheus(given, url, period_of("45m", None, NOW_WALL), NOW_WALL)

    async def ask_with(self, _: str, answer: object) -> Any:
        return await self.ask(answer)

    async def test_report_has_the_name_of_the_cluster(self) -> None:
        made = await self.ask(
            self.answers(
                builds=[({"version": "1.2.3"}, 1.0)],
                clusters=[({"cluster": "prod"}, 1.0)],
                events=[({**PODS, "verdict": "within"}, 10.0)],
            )
        )
        assert made.title == "watchslo: prod"
        assert [one.watch for one in made.watches] == ["pods"]

    async def test_several_clusters_are_not_mixed(self) -> None:
        clusters = [({"cluster": "a"}, 1.0), ({"cluster": "b"}, 1.0)]
        with pytest.raises(ConfigError, match=r"""several clusters, a and b; .* 'job="watchslo",cluster="b"'$"""):
            await self.ask(self.answers(builds=[({"version": "1"}, 1.0)], clusters=clusters))

    @pytest.mark.parametrize(
        ("jobs", "why"),
        [
            ([({"job": "other"}, 1.0)], """from the job other: pass --job-selector 'job="other"'"""),
            ([], "check the URL, and whether it scraped watchslo then; `watchslo doctor --prometheus`"),
        ],
    )
    async def test_missing_metrics_name_other_jobs(self, jobs: list[tuple[Mapping[str, str], float]], why: str) -> None:
        with pytest.raises(
            ConnectError, match='has no metrics of watchslo with job="watchslo" in this period'
        ) as error:
            await self.ask(self.answers(jobs=jobs))
        assert why in str(error.value)

    async def test_doubts_about_answers_are_those_of_the_golden_file(self, golden: Callable[[str, str], None]) -> None:
        answer = self.answers(builds=[({"version": "1.2.3"}, 1.0)], minutes=[({**PODS}, 1.0)])

        async def doubts(said: str) -> str:
            made = await self.ask(lambda request: json.dumps(json.loads(answer(request)) | json.loads(said)).encode())
            return "\n".join(made.own.doubts) or "none"

        async def begin(_: str) -> AsyncStep:
            return doubts

        golden("report-doubts.txt", await replay_async((GOLDEN / "report-doubts.txt").read_text(), begin))

    async def test_doubts_are_named_if_there_are_no_metrics(self) -> None:
        partial = {"data": {"resultType": "matrix", "result": []}, "isPartial": True}
        with pytest.raises(
            ConnectError, match=r"no metrics of watchslo .*; Prometheus says that its answers are partial"
        ):
            await self.ask(json.dumps(partial).encode())

    async def test_metrics_that_are_missing_a_moment_later_end_no_report(self) -> None:
        usual, count = self.answers(builds=[({"version": "1.2.3"}, 1.0)]), itertools.count()
        made = await self.ask(lambda request: usual(request) if next(count) == 0 else self.answers()(request))
        assert "watchslo" not in made.source

    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e400", "no number", "7", "-1", "1.5", "1e300"])
    async def test_no_value_of_any_query_ends_the_report(self, value: str) -> None:
        usual: dict[str, Any] = {"builds": [({"version": "1.2.3"}, 1.0)], "clusters": [({"cluster": "prod"}, 1.0)]}
        answer = self.answers(**usual)
        odd = self.answers(**{asked: [(PODS, value)] for asked in Asked if asked not in usual})

        def either(request: web.Request) -> bytes:
            return answer(request) if json.loads(answer(request))["data"]["result"] else odd(request)

        made = await self.ask(either)
        assert all(write(made) for write in (as_brief, as_markdown, as_html))

    async def test_wrong_options_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="--job-selector: x is not a selector"):
            await self.ask(b"", job_selector="x")
        with pytest.raises(ConfigError, match=r"--prometheus: ftp://x is not the URL of a Prometheus"):
            await command._ask_prometheus(ReportOptions(), "ftp://x", period_of("1h", None, NOW_WALL), NOW_WALL)


class TestOutput:
    @pytest.fixture(autouse=True)
    def report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answer with a report without a daemon."""
        from tests.unit.report.incidents import incident  # noqa: PLC0415 - the story is slow to tell

        def run(coroutine: Any) -> Any:
            coroutine.close()
            return incident(QUIET)

        monkeypatch.setattr(command, "run_on_loop", run)
        monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)

    @pytest.mark.parametrize(
        ("options", "begin"),
        [
            ({}, "<!doctype html>"),
            ({"form": "markdown"}, "# ✓ No watch"),
            ({"form": "brief"}, "✓ No watch"),
            ({"prometheus": "p"}, "<!doctype html>"),
        ],
    )
    def test_report_is_printed_in_the_format_that_is_asked_for(
        self, options: Mapping[str, Any], begin: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command.report(ReportOptions(**options))
        assert capsys.readouterr().out.startswith(begin)


def test_all_that_is_asked_has_a_name() -> None:
    assert {asked.value for asked in Asked} == {asked.name.lower() for asked in Asked}
    assert ReportOptions().credentials == DaemonCredentials()
