"""The messages of the exposition: what they say is what the text says, and histograms may be native as well."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.metric_messages import ACCEPT, messages, samples_of, type_of
from tests.unit.serve import readings
from watchslo.serve.document import PIECE_SIZE
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.family_messages import FamilyMessages
from watchslo.serve.metrics import FAMILIES, Detail, Label
from watchslo.serve.metrics.family import gauge, histogram
from watchslo.serve.metrics.views import per_watch
from watchslo.snapshot import HistogramReading, NativeBuckets, Snapshot

PROTOBUF, TEXT = negotiate(ACCEPT, ""), negotiate("", "")
MANY = readings.many(30, readings.STALLED)
KEY = Label("key", "a key")


def pages(snapshot: Snapshot, detail: Detail) -> tuple[list[Any], str]:
    """Return the messages and the text of a snapshot."""
    encoder = MetricsEncoder(detail)
    return [*messages(encoder.encode(snapshot, PROTOBUF).body)], encoder.encode(snapshot, TEXT).body.decode()


def only(found: Any, declare: Any = gauge) -> Any:
    """Return the message of a family whose only owner has these values."""
    family = declare(
        "things", "Things.", basic=per_watch(lambda _: found, *((KEY,) if isinstance(found, dict) else ()))
    )
    written = FamilyMessages(family, family.basic)
    (message,) = messages(b"".join(written.pieces(replace(readings.SNAPSHOT, watches=(readings.TAIL,)))))
    return message


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("snapshot", [readings.EMPTY, readings.SNAPSHOT, MANY], ids=["empty", "some", "many"])
def test_messages_say_what_the_text_says(snapshot: Snapshot, detail: Detail) -> None:
    found, text = pages(snapshot, detail)
    expected = [*text_string_to_metric_families(text)]
    assert [one.name.removesuffix("_total") for one in found] == [family.name for family in expected]
    for message, family in zip(found, expected, strict=True):
        assert (message.help, type_of(message)) == (family.documentation, family.type)
        if not family.name.startswith("process_"):  # which are read again for each page
            samples = {(one.name, frozenset(one.labels.items())): one.value for one in family.samples}
            assert samples_of(message) == samples


def test_process_metrics_are_among_the_messages() -> None:
    found = {one.name: one.metric[0] for one in pages(readings.EMPTY, Detail.BASIC)[0]}
    assert found["process_resident_memory_bytes"].gauge.value > 0
    assert found["process_cpu_seconds_total"].counter.value > 0


def test_zero_is_written_and_not_left_out() -> None:
    (metric,) = only(0).metric
    assert metric.gauge.HasField("value")


def test_labels_are_written_as_they_are() -> None:
    metrics = only({'a"\n\\ä%s': 1.0, "": 2.0}).metric
    assert [metric.label[-1].value for metric in metrics] == ['a"\n\\ä%s', ""]


class TestNative:
    NATIVE = NativeBuckets(schema=3, zero_threshold=2**-10, zero=1, first=-3, counts=(200, 0, 1))
    READING = HistogramReading((0.5, 1.0), (1, 202, 202), 3.75, NATIVE)

    def test_buckets_are_added_to_the_classic_ones(self) -> None:
        one = only(self.READING, histogram).metric[0].histogram
        assert (one.schema, one.zero_threshold, one.zero_count) == (3, 2**-10, 1)
        assert [(span.offset, span.length) for span in one.positive_span] == [(-3, 3)]
        assert list(one.positive_delta) == [200, -200, 1]
        assert (one.sample_count, one.sample_sum) == (202, 3.75)
        assert [(bucket.upper_bound, bucket.cumulative_count) for bucket in one.bucket] == [(0.5, 1), (1.0, 202)]

    def test_histogram_is_native_before_its_first_event(self) -> None:
        """A zero threshold says so; a series must not change from classic to native."""
        nothing = HistogramReading((0.5, 1.0), (0, 0, 0), 0.0, replace(self.NATIVE, zero=0, counts=()))
        one = only(nothing, histogram).metric[0].histogram
        assert (one.zero_threshold, len(one.positive_span), len(one.positive_delta)) == (2**-10, 0, 0)

    def test_histogram_without_fine_buckets_is_classic(self) -> None:
        one = only(replace(self.READING, native=None), histogram).metric[0].histogram
        assert not any(one.HasField(name) for name in ("schema", "zero_threshold", "zero_count"))

    def test_catalogue_says_which_histograms_are_native(self) -> None:
        found, _ = pages(readings.SNAPSHOT, Detail.FULL)
        histograms = {one.name: one.metric[0].histogram for one in found if type_of(one) == "histogram"}
        assert {name: one.HasField("schema") for name, one in histograms.items()} == {
            family.name: family.native for family in FAMILIES if family.name in histograms
        }

    def test_bytes_are_those_of_the_schema(self) -> None:
        """Field numbers and kinds by hand: a decoder with the same mistake would not notice it."""
        one = only(self.READING, histogram).metric[0].histogram
        expected = (
            "08ca01",  # 1 sample_count
            "11 0000000000000e40",  # 2 sample_sum
            "1a0b 0801 11000000000000e03f",  # 3 bucket: 1 cumulative_count, 2 upper_bound
            "1a0c 08ca01 11000000000000f03f",
            "2806",  # 5 schema, 3 in zigzag
            "31 000000000000503f",  # 6 zero_threshold
            "3801",  # 7 zero_count
            "6204 0805 1003",  # 12 positive_span: 1 offset, -3 in zigzag, 2 length
            "6a05 9003 8f03 02",  # 13 positive_delta, packed, in zigzag
        )
        assert one.SerializeToString().hex() == "".join(expected).replace(" ", "")


class TestEvaluations:
    def test_family_without_values_has_no_message(self) -> None:
        family = gauge("things", "Things.", basic=per_watch(lambda _: None))
        assert family.basic
        assert FamilyMessages(family, family.basic).pieces(readings.SNAPSHOT) == ()
        assert not [one for one in pages(readings.EMPTY, Detail.FULL)[0] if not one.metric]

    def test_large_message_is_in_pieces(self) -> None:
        many = readings.many(3000, readings.TAIL)
        pieces = MetricsEncoder(Detail.BASIC).encode(many, PROTOBUF).pieces
        assert max(map(len, pieces)) < 2 * PIECE_SIZE
