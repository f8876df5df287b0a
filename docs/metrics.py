"""docs/reference/metrics.md: every metric, and its labels."""

from pathlib import Path

from kerolox.broker import metric_names as broker
from kerolox.namesrv import metrics as namesrv
from kerolox.runtime.exposition import PROCESS_METRICS, Metric

PAGE = Path(__file__).parent / "reference" / "metrics.md"

_HEAD = """# Metrics

What brokers and NameServers tell Prometheus at `/metrics`, if they are [told to](../how-to/watch-with-prometheus.md).
Names that begin with `rocketmq_` are those of RocketMQ 5.x, with its labels as far as they are listed; those that begin
with `kerolox_` are ours. This page is made from the code by `python -m docs.generate`, and a test holds it to that.

Where messages pass, nothing is counted for these metrics: what is counted anyway is read when somebody asks, at most
once in a second. Ages and lags are looked up then, some hundred queues to a turn of the event loop.
`metricsSeriesMax` topics (1,000 unless set), and as many pairs of topic and group, have series of their own: the first
that came. All others share one, whose labels say `other`. `metricsLabel=zone:north` adds a label to each metric.

"""


def page() -> str:
    """Returns the page as it should be."""
    parts = (
        (
            "Brokers",
            "All have the labels `cluster`, `node_type` (broker) and `node_id` (the broker's name).",
            broker.METRICS,
        ),
        ("NameServers", "All have the labels `node_type` (nameserver) and `node_id` (the address).", namesrv.METRICS),
        ("Processes", "Whoever answers tells of its own process, too.", PROCESS_METRICS),
    )
    return _HEAD + "\n".join(_part(*part) for part in parts)


def _part(title: str, told: str, metrics: tuple[Metric, ...]) -> str:
    rows = "".join(
        f"| `{it.name}` | {it.kind.value} | {' '.join(f'`{label}`' for label in it.labels)} | {it.help} |\n"
        for it in metrics
    )
    return f"## {title}\n\n{told}\n\n| name | kind | labels | what it is |\n|---|---|---|---|\n{rows}"
