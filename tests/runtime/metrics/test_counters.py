"""Counters and histograms by labels, and the limit on their number."""

from kerolox.runtime.metrics.counters import Histogram, Histograms, LabelCounter
from kerolox.runtime.metrics.prometheus import HistogramFamily, Kind, Metric
from tests.runtime.metrics.test_prometheus import parsed

TOOK = Metric("took_milliseconds", Kind.HISTOGRAM, "How long it took.", ("status",))


def test_labels_beyond_the_limit_are_counted_as_other() -> None:
    counter = LabelCounter(keys_max=2)

    for labels in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "x"), ("a", "x")):
        counter.add(*labels)

    assert counter.counts == {("a", "x"): 2, ("b", "x"): 1, ("other", "other"): 2}


def test_labels_beyond_the_limit_share_a_histogram() -> None:
    histograms = Histograms((10,), keys_max=1)

    for topic in "abc":
        histograms.add(5, topic)

    assert {labels: histogram.counts for labels, histogram in histograms.items()} == {
        ("a",): [1, 0],
        ("other",): [2, 0],
    }


def test_a_value_equal_to_a_bound_falls_into_its_bucket() -> None:
    histogram = Histogram((1, 10))

    for value in (0, 1, 1.5, 10, 11):
        histogram.add(value)

    assert histogram.counts == [2, 2, 1]
    assert histogram.total == 23.5


def test_exported_histogram_buckets_are_cumulative() -> None:
    histogram = Histogram((1, 10))
    for value in (0.5, 2, 3, 50):
        histogram.add(value)

    exported = parsed(HistogramFamily(TOOK, [(("success",), histogram)], {"node_id": "a"}))

    common = (("node_id", "a"), ("status", "success"))
    assert exported == {
        ("took_milliseconds_bucket", (("le", "1.0"), *common)): 1,
        ("took_milliseconds_bucket", (("le", "10.0"), *common)): 3,
        ("took_milliseconds_bucket", (("le", "+Inf"), *common)): 4,
        ("took_milliseconds_sum", common): 55.5,
        ("took_milliseconds_count", common): 4,
    }
