"""Whatever answers a list, it ends in the right page or in a failure, and the next list works."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.garbled import garbled, read_leniently, replacements, revision_in
from tests.support.protobuf import pod, pods
from tests.unit.kube.conftest import Server, answer, list_page
from watchslo.kube.call import Page
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.headroom import estimate_list
from watchslo.watch.messages import ListRequest

TABLE = (
    b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"42"},"columnDefinitions":'
    b'[{"name":"Name","priority":0}],"rows":[{"cells":["web",1],"object":null},{"cells":["db",2],"object":null}]}'
)
METADATA = (
    b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"42","continue":"more","remainingItemCount":7},'
    b'"items":[{"metadata":{"uid":"a","resourceVersion":"40","creationTimestamp":"2026-11-21T11:58:25Z"}},'
    b'{"metadata":{"uid":"b","resourceVersion":"41","managedFields":[{"manager":"curl"}]}}]}'
)
PLAIN = METADATA.replace(b'"managedFields"', b'"labels":{"app":"web"},"finalizers"').replace(
    b"PartialObjectMetadata", b"Pod"
)
LAST = (
    b'{"kind":"PodList","metadata":{"resourceVersion":"42"},"items":[{"metadata":{"uid":"c","resourceVersion":"39"}}]}'
)
ANSWERS: Mapping[Representation, bytes] = {
    Representation.TABLE: TABLE,
    Representation.METADATA: METADATA,
    Representation.PLAIN: PLAIN,
}
FORMS = list(product(ANSWERS, (False, True)))
GOOD_REVISION = 42
LIMITED = ListRequest(limit=2)

each_example_uses_the_same_server = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check_page(page: Page | Failure, body: bytes) -> None:
    if isinstance(page, Failure) and page.reason is Reason.UNPARSABLE:
        assert revision_in(read_leniently(body)) is None
        return
    if isinstance(page, Failure):
        assert page.reason is Reason.GARBAGE
        return
    parsed = read_leniently(body)
    metadata = parsed["metadata"]
    assert page.revision == revision_in(parsed)
    assert page.continue_token == (metadata.get("continue") or None)
    assert page.remaining in (None, metadata.get("remainingItemCount"))
    assert page.size == len(body)
    if page.objects is None:
        assert page.items == len(parsed.get("rows") or parsed.get("items") or ())
    else:
        found = [item["metadata"] for item in parsed.get("items") or ()]
        assert page.items == len(found)
        assert page.objects.uids == [one.get("uid") for one in found]
        assert page.objects.revisions == [one.get("resourceVersion") for one in found]
    assert estimate_list(0.1, page.remaining or 0) >= 0.1


@pytest.mark.parametrize(("representation", "with_objects"), FORMS)
async def test_each_odd_value_in_a_list_is_the_right_page_or_garbage(
    server: Server, client: Client, representation: Representation, *, with_objects: bool
) -> None:
    server.script = [answer(ANSWERS[representation])]
    page = await list_page(client, representation, LIMITED, with_objects=with_objects)
    assert isinstance(page, Page)
    assert page.remaining == (None if representation is Representation.TABLE else 7)
    assert (page.objects is None) == (representation is Representation.TABLE or not with_objects)
    for body in replacements(ANSWERS[representation]):
        server.script = [answer(body)]
        check_page(await list_page(client, representation, LIMITED, with_objects=with_objects), body)


PROTOBUF_LIST = pods({"resourceVersion": "42", "continue": "more", "remainingItemCount": 7}, pod(40), pod(41))
PROTOBUF_LAST = pods({"resourceVersion": "42"}, pod(39))
PROTOBUF = "application/vnd.kubernetes.protobuf"


@each_example_uses_the_same_server
@given(data=st.data(), with_objects=st.booleans())
async def test_garbled_list_as_protobuf_is_a_page_or_garbage(
    server: Server, client: Client, data: st.DataObject, *, with_objects: bool
) -> None:
    body = data.draw(garbled(PROTOBUF_LIST))
    server.script = [answer(body, media=PROTOBUF), answer(PROTOBUF_LAST, media=PROTOBUF)]
    page = await list_page(client, Representation.PROTOBUF, LIMITED, with_objects=with_objects)
    if isinstance(page, Failure):
        assert page.reason in (Reason.GARBAGE, Reason.UNPARSABLE)
    else:
        assert (page.objects is not None) == with_objects
        assert page.remaining is None or page.remaining >= 0
        assert estimate_list(0.1, page.remaining or 0) >= 0.1
    good = await list_page(client, Representation.PROTOBUF, LIMITED, with_objects=with_objects)
    assert isinstance(good, Page)
    assert (good.revision, good.items) == (GOOD_REVISION, 1)


@each_example_uses_the_same_server
@given(data=st.data(), form=st.sampled_from(FORMS))
async def test_garbled_list_is_the_right_page_or_garbage(
    server: Server, client: Client, data: st.DataObject, form: tuple[Representation, bool]
) -> None:
    representation, with_objects = form
    body = data.draw(garbled(ANSWERS[representation]))
    server.script = [answer(body), answer(LAST)]
    check_page(await list_page(client, representation, LIMITED, with_objects=with_objects), body)
    good = await list_page(client, representation, LIMITED, with_objects=with_objects)
    assert isinstance(good, Page)
    assert (good.revision, good.items) == (GOOD_REVISION, 1)
