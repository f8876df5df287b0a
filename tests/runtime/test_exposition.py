"""Metrics as text, and the bound on their series."""

from prometheus_client.parser import text_string_to_metric_families

from kerolox.runtime.exposition import Family, Kind, Metric, Series, Told, process
from kerolox.runtime.tallies import OTHER

SENT = Metric("sent_total", Kind.COUNTER, "What was sent.", ("topic",))


def parsed(*families: Told) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Returns values by name and labels, as Prometheus' own parser reads them."""
    text = "".join(line for family in families for line in family.lines())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_written_is_what_prometheus_reads() -> None:
    odd = 'a "quoted" \\ back\nslash, {brace}="x"'
    family = Family(SENT, [(("orders",), 3), ((odd,), 1.5)], {"cluster": "c"})

    assert parsed(family) == {
        ("sent_total", (("cluster", "c"), ("topic", "orders"))): 3,
        ("sent_total", (("cluster", "c"), ("topic", odd))): 1.5,
    }


def test_a_metric_without_labels_has_no_braces() -> None:
    family = Family(Metric("up", Kind.GAUGE, "Whether."), [((), 1)], {})

    assert list(family.lines())[-1] == "up 1\n"


def counted(series: Series, **values: float) -> dict[str, float]:
    """Returns what is told of a counter."""
    own = {name: value for name, value in values.items() if series.is_own((name,))}
    rest = series.shared("sent_total", sum(value for name, value in values.items() if name not in own))
    return own | ({OTHER: rest} if rest else {})


def test_beyond_the_bound_there_is_one_series_for_all_others() -> None:
    series = Series(2)

    assert counted(series, a=1, b=2, c=3, d=4) == {"a": 1, "b": 2, OTHER: 7}
    assert counted(series, d=5, c=3, b=2, a=1) == {"b": 2, "a": 1, OTHER: 8}


def test_nobody_changes_series_when_others_are_forgotten_and_no_counter_goes_down() -> None:
    series = Series(1)
    counted(series, a=1, b=10, c=20)

    assert counted(series, b=11, c=20) == {OTHER: 31}
    assert counted(series, b=12) == {OTHER: 31}
    assert counted(series, b=13) == {OTHER: 32}


def test_gauges_of_the_others_are_summed_and_may_go_down() -> None:
    series = Series(1)

    def shown(**values: float) -> dict[str, float]:
        return {
            labels[0]: value
            for labels, value in series.gauges([((name,), (name,), value) for name, value in values.items()], (OTHER,))
        }

    assert shown(a=1, b=2, c=3) == {"a": 1, OTHER: 5}
    assert shown(a=1, b=1) == {"a": 1, OTHER: 1}
    assert shown(a=1) == {"a": 1}


def test_who_has_a_name_without_end_is_one_of_the_others() -> None:
    assert counted(Series(10), a=1, **{"x" * 300: 2}) == {"a": 1, OTHER: 2}


def test_a_process_tells_of_itself() -> None:
    found = {name: value for (name, _), value in parsed(*process()).items()}

    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert 0 < found["process_open_fds"] <= found["process_max_fds"]
