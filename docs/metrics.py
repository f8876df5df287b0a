"""Generates docs/reference/metrics.md: every metric and its labels."""

from pathlib import Path

from prometheus_client import ProcessCollector

from kerolox.broker.metrics import names as broker
from kerolox.controller import metrics as controller
from kerolox.namesrv import metrics as namesrv
from kerolox.runtime.metrics.prometheus import Kind, Metric

PAGE = Path(__file__).parent / "reference" / "metrics.md"

_HEAD = """# Metrics

Brokers, NameServers and controllers serve these metrics to Prometheus at `/metrics`, if they are
[enabled](../how-to/watch-with-prometheus.md). Metrics that begin with `rocketmq_` have the names of RocketMQ 5.x, and
those of its labels that are listed here; metrics that begin with `kerolox_` are additions. `python -m docs.generate`
generates this page from the code, and a test compares them.

Sending and consuming messages updates no counters for these metrics alone: a scrape reads counters that exist for
other reasons, at most once a second. It also looks up ages and lags, some hundred queues per iteration of the event
loop. The first `metricsSeriesMax` topics (1,000 by default), and as many pairs of topic and group, have their own
series. All others share one series with the label value `other`. `metricsLabel=zone:north` adds a label to each
metric.

"""


def page() -> str:
    """Return the text of the generated page."""
    parts = (
        (
            "Brokers",
            "All metrics have the labels `cluster`, `node_type` (broker) and `node_id` (the broker's name).",
            broker.METRICS,
        ),
        (
            "NameServers",
            "All metrics have the labels `node_type` (nameserver) and `node_id` (the address).",
            namesrv.METRICS,
        ),
        (
            "Controllers",
            "All metrics have the labels `node_type` (controller) and `node_id` (the address).",
            controller.METRICS,
        ),
        ("Processes", "All servers also export metrics of their process.", process_metrics()),
    )
    return _HEAD + "\n".join(_part(*part) for part in parts)


def process_metrics() -> tuple[Metric, ...]:
    """Return the metrics that prometheus-client adds."""
    families = ProcessCollector(registry=None).collect()
    return tuple(Metric(it.samples[0].name, Kind(it.type), it.documentation) for it in families)


def _part(title: str, introduction: str, metrics: tuple[Metric, ...]) -> str:
    rows = "".join(
        f"| `{it.name}` | {it.kind.value} | {' '.join(f'`{label}`' for label in it.labels)} | {it.help} |\n"
        for it in metrics
    )
    return f"## {title}\n\n{introduction}\n\n| name | kind | labels | what it is |\n|---|---|---|---|\n{rows}"
