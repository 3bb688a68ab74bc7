"""The page and the API of all instances."""

import re
from collections.abc import Callable

import msgspec
import pytest

from tests.unit.overview.instances import GOOD, LATE, report, silent
from tests.unit.serve import serving
from tests.unit.serve.markup import Elements
from watchslo.model import InstanceName
from watchslo.overview.merge import Overview, merge
from watchslo.serve import overview as served
from watchslo.serve.auth import Bearer
from watchslo.serve.auth_cache import AccessDecision

AT = 1_700_000_000.0
ALL = merge((report(0, 3, GOOD), report(1, 3, LATE), silent("https://h2:9477")), (), AT)


def html(overview: Overview) -> str:
    return served.encode(overview).body.decode()


def test_page_and_document_match_golden_files(golden: Callable[[str, str], None]) -> None:
    golden("overview.html", html(ALL))
    golden("overview.json", msgspec.json.format(msgspec.json.encode(served.document_of(ALL))).decode() + "\n")


def test_page_without_a_cluster_still_has_a_title() -> None:
    assert "<title>? watchslo: all instances</title>" in html(merge((), (), AT))


def test_notes_are_no_doubts() -> None:
    twins = (report(0, 2), report(1, 2, version="9"))
    assert '<li class="note">The versions differ' in html(merge(twins, (), AT))
    doubts = [f"Cannot tell for {name}." for name in "abcd"]
    assert "</ul>" in html(merge(twins, doubts, AT)).partition('<li class="unknown">Cannot tell for d.')[2]


def test_page_loads_nothing_from_elsewhere_and_has_no_script() -> None:
    found = Elements(html(ALL))
    assert not {"script", "style", "img"} & {*found.tags}
    assert served.encode(ALL).headers["Content-Security-Policy"].startswith("default-src 'none';")


def test_texts_of_instances_are_no_markup() -> None:
    evil = report(0, 1, name=InstanceName("<i>", "<b>", host="<script>"), version="<u>")
    text = html(merge((evil,), ("<em>",), AT))
    assert not re.search(r"<(i|b|script|u|em)>", text)
    assert "&lt;script&gt;" in text


async def serve(path: str, *, token: str = "", protected: bool = False) -> tuple[int, str, str]:
    """Return the status, content type and text of an answer."""

    async def authorize(sent: Bearer, _: str) -> AccessDecision:
        return AccessDecision.ALLOWED if sent.token == "good" else AccessDecision.UNKNOWN

    app = served.create_overview_app(lambda: ALL, authorize if protected else None)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with serving.served(app) as client, client.get(path, headers=headers) as answer:
        return answer.status, answer.content_type, await answer.text()


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
