"""The page and the API of all instances."""

import json
import re
from html.parser import HTMLParser

import aiohttp
import pytest

from tests.unit.overview.instances import GOOD, LATE, report, silent
from watchslo.config.model import ServerLimitsConfig
from watchslo.config.values import Listen
from watchslo.model import InstanceName
from watchslo.overview.merge import Overview, merge
from watchslo.serve import overview as served
from watchslo.serve.auth import Bearer
from watchslo.serve.auth_cache import AccessDecision
from watchslo.serve.server import StatusServer, listen, url
from watchslo.timeline.format import ABSENT

AT = 1_700_000_000.0
ALL = merge((report(0, 3, GOOD), report(1, 3, LATE), silent("https://h2:9477")), (), AT)


def html(overview: Overview) -> str:
    return served.encode(overview).body.decode()


class Links(HTMLParser):
    """Collects tags and links; nothing may have a style or a handler of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_page_has_the_verdict_in_title_and_headline() -> None:
    text = html(ALL)
    assert "<title>✗ watchslo: prod-eu, all instances</title>" in text
    assert '<p id="headline" class="bad"><span aria-hidden="true">✗</span> <span>shard 2 of 3: pods: late' in text
    assert "Cannot tell for shard 3 of 3 (https://h2:9477): the connection is refused.</span>" in text
    assert "<li class" not in text, "the headline has it already"
    assert "Updated 2023-11-14 22:13:20 UTC." in text


def test_page_without_a_cluster_still_has_a_title() -> None:
    assert "<title>? watchslo: all instances</title>" in html(merge((), (), AT))


def test_page_has_a_row_for_each_instance_with_a_link_to_its_page() -> None:
    text = html(ALL)
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>', text)
    assert rows == ["shard 2 of 3", ABSENT, "shard 1 of 3"]
    assert {"http://h0:9477/", "http://h1:9477/", "https://h2:9477/"} <= {*Links(text).links}
    assert "3 instances" in text


def test_notes_are_no_doubts() -> None:
    twins = (report(0, 2), report(1, 2, version="9"))
    assert '<li class="note">The versions differ' in html(merge(twins, (), AT))
    doubts = [f"Cannot tell for {name}." for name in "abcd"]
    assert "</ul>" in html(merge(twins, doubts, AT)).partition('<li class="unknown">Cannot tell for d.')[2]


def test_figures_follow_the_text() -> None:
    assert "All 2 watches are within 1 s; 2 within 1 s" in html(ALL)


def test_page_loads_nothing_from_elsewhere_and_has_no_script() -> None:
    found = Links(html(ALL))
    assert not {"script", "style", "img"} & {*found.tags}
    assert served.encode(ALL).headers["Content-Security-Policy"].startswith("default-src 'none';")


def test_texts_of_instances_are_no_markup() -> None:
    evil = report(0, 1, name=InstanceName("<i>", "<b>", host="<script>"), version="<u>")
    text = html(merge((evil,), ("<em>",), AT))
    assert not re.search(r"<(i|b|script|u|em)>", text)
    assert "&lt;script&gt;" in text


def test_document_has_everything() -> None:
    document = json.loads(served.document_of(ALL).model_dump_json(by_alias=True))
    assert list(document) == ["apiVersion", "at", "cluster", "verdict", "findings", "instances"]
    assert (document["at"], document["cluster"]) == ("2023-11-14T22:13:20Z", "prod-eu")
    assert document["verdict"]["level"] == "bad"
    assert [one["doubt"] for one in document["findings"]] == [True]
    late, gone, good = document["instances"]
    assert (late["part"], late["level"], late["text"], late["figures"]) == ("shard 2 of 3", "bad", LATE.text, "P99 8 s")
    assert (gone["address"], gone["answers"], gone["age"], gone["version"]) == ("https://h2:9477", False, None, None)
    assert (good["name"], good["version"], good["watches"]) == ("watchslo-0", "1.2.3", 0)


async def serve(path: str, *, token: str = "", protected: bool = False) -> tuple[int, str, str]:
    """Return the status, content type and text of an answer."""

    async def authorize(sent: Bearer, _: str) -> AccessDecision:
        return AccessDecision.ALLOWED if sent.token == "good" else AccessDecision.UNKNOWN

    listener = listen(Listen("127.0.0.1", 0))
    server = StatusServer(
        served.create_overview_app(lambda: ALL, authorize if protected else None), listener, ServerLimitsConfig()
    )
    server.start()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(url(listener)) as client, client.get(path, headers=headers) as answer:
        found = answer.status, answer.content_type, await answer.text()
    await server.stop()
    return found


@pytest.mark.parametrize(
    ("path", "kind", "part"),
    [
        ("/", "text/html", "all instances"),
        ("/api/v1/overview", "application/json", '"apiVersion":"v1"'),
        ("/page/style.css", "text/css", "#instances"),
        ("/healthz", "text/plain", "ok"),
        ("/openapi.json", "application/json", "OverviewDocument"),
    ],
)
async def test_paths_are_served(path: str, kind: str, part: str) -> None:
    status, content_type, text = await serve(path)
    assert (status, content_type) == (200, kind)
    assert part in text


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/status", "/elsewhere"])
async def test_other_paths_are_unknown(path: str) -> None:
    assert (await serve(path))[0] == 404


@pytest.mark.parametrize(
    ("path", "token", "status"), [("/", "", 401), ("/", "bad", 401), ("/", "good", 200), ("/healthz", "", 200)]
)
async def test_page_is_protected_like_that_of_a_daemon(path: str, token: str, status: int) -> None:
    assert (await serve(path, token=token, protected=True))[0] == status
