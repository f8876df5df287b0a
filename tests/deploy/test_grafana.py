"""The Grafana dashboard uses existing metrics and labels, and all metrics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from docs.metrics import process_metrics
from kerolox.broker.metrics import names as broker
from kerolox.namesrv import metrics as namesrv
from kerolox.runtime.metrics.prometheus import Kind

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "kerolox.json").read_text())
EXPORTED = {metric.name: metric for metric in (*broker.METRICS, *namesrv.METRICS, *process_metrics())}
# Labels that Prometheus adds itself.
COMMON = {"cluster", "node_type", "node_id", "instance", "job"}
# A name that is neither a label nor a variable: a metric.
_NAME = re.compile(r"\b(?:rocketmq|kerolox|process)_\w+")
_MATCHED = re.compile(r"(\w+)\s*=~?\"")
_GROUPED = re.compile(r"by \(([^)]*)\)")

PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]


def names(expression: str) -> list[str]:
    return [name.removesuffix("_bucket") for name in _NAME.findall(expression)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_uses_existing_metrics_and_labels(expression: str) -> None:
    (name,) = names(expression)
    labels = set(_MATCHED.findall(expression))
    for group in _GROUPED.findall(expression):
        labels |= {label.strip() for label in group.split(",")}

    assert name in EXPORTED
    is_histogram = EXPORTED[name].kind is Kind.HISTOGRAM
    assert labels <= set(EXPORTED[name].labels) | COMMON | ({"le"} if is_histogram else set())
    assert expression.count("(") == expression.count(")")
    assert ("rate(" in expression or "increase(" in expression) == (is_histogram or name.endswith("_total"))
    assert ("histogram_quantile(" in expression) == (f"{name}_bucket{{" in expression) == is_histogram


def test_legends_show_labels_that_expressions_keep() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {label.strip() for group in _GROUPED.findall(target["expr"]) for label in group.split(",")}
            if "by (" not in target["expr"] and not re.match(r"(sum|max|min)\(", target["expr"]):
                kept = COMMON
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, target["expr"]


def test_every_metric_is_shown() -> None:
    assert {name for expression in EXPRESSIONS for name in names(expression)} == set(EXPORTED)


def test_variables_use_an_existing_metric() -> None:
    queries = [variable["query"]["query"] for variable in BOARD["templating"]["list"] if variable["type"] == "query"]

    assert all(set(_NAME.findall(query)) <= set(EXPORTED) for query in queries)
    used = set(re.findall(r"\$(\w+)", " ".join(EXPRESSIONS))) - {"__rate_interval"}
    assert used <= {variable["name"] for variable in BOARD["templating"]["list"]}


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    cells = [
        (x, y) for it in places for x in range(it["x"], it["x"] + it["w"]) for y in range(it["y"], it["y"] + it["h"])
    ]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_prometheus_scrapes_the_default_port() -> None:
    settings = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())

    assert settings["scrape_configs"][0]["static_configs"] == [{"targets": ["127.0.0.1:5557"]}]
