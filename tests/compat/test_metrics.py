"""Metrics of a running 5.5.0 broker equal our recording of them."""

import pytest

from kerolox.broker.metrics.names import METRICS
from tests.apache.requirements import require_java
from tests.golden import metrics
from tests.golden.record_metrics import VERSION, recorded


@pytest.mark.slow
@pytest.mark.compat
@pytest.mark.timeout(600)
def test_metrics_of_java_equal_the_recording() -> None:
    require_java()
    kept = metrics.load(VERSION)
    shared = {metric.name for metric in METRICS} & kept.keys()

    current = recorded()

    assert shared
    assert {name: current.get(name) for name in shared} == {name: kept[name] for name in shared}
