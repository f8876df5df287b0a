"""The trace of a message as a timeline of steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import EndTransaction, Pub, Recall, Record, SubAfter, SubBefore

# Width of the drawing, which is scaled to the width of the page.
WIDTH = 640
_BAR_WIDTH_MIN = 3.0
_RECORDS_MAX = 200

_OUTCOMES = {
    trace_format.SUCCESS: "consumed",
    trace_format.TIME_OUT: "timed out",
    trace_format.EXCEPTION: "raised an error",
    trace_format.RETURN_NULL: "returned nothing",
    trace_format.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """An event in the life of a message: it was sent, consumed, committed or recalled."""

    action: str
    group: str
    begin_millis: int
    cost_millis: int
    is_success: bool
    outcome: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Position and width of a step in the drawing."""

    step: Step
    x: float
    width: float


def steps(records: Sequence[Record]) -> list[Step]:
    """Return the steps in order of time; SubBefore and SubAfter of the same consumption become one step."""
    known = records[:_RECORDS_MAX]
    ends = {it.request_id: it for it in known if isinstance(it, SubAfter)}
    begun = {it.request_id for it in known if isinstance(it, SubBefore)}
    found = [_step(it, ends) for it in known if not isinstance(it, SubAfter)]
    # The SubBefore record may be lost, or not stored yet.
    found += [_step_of_end(it) for it in ends.values() if it.request_id not in begun]
    return sorted(found, key=lambda step: step.begin_millis)


def _step(record: Record, ends: dict[str | None, SubAfter]) -> Step:
    group = record.group or ""
    if isinstance(record, Pub):
        outcome = "stored" if record.is_success else "not stored"
        return Step("sent", group, record.timestamp, record.cost_millis, record.is_success, outcome)
    if isinstance(record, SubBefore):
        end = ends.get(record.request_id)
        action = f"consumed, attempt {record.retry_times + 1}"
        if end is None:
            return Step(action, group, record.timestamp, 0, True, "not finished")
        return Step(action, group, record.timestamp, end.cost_millis, end.is_success, _outcome(end))
    if isinstance(record, EndTransaction):
        return Step("transaction", group, record.timestamp, 0, True, (record.transaction_state or "").lower())
    assert isinstance(record, Recall)
    return Step("recalled", group, record.timestamp, 0, record.is_success, "done" if record.is_success else "failed")


def _step_of_end(record: SubAfter) -> Step:
    begin = max(0, record.timestamp - record.cost_millis)
    return Step("consumed", record.group or "", begin, record.cost_millis, record.is_success, _outcome(record))


def _outcome(record: SubAfter) -> str:
    outcome = _OUTCOMES.get(record.context_code, "failed")
    # Some clients report a failure without a context code.
    return "failed" if outcome == "consumed" and not record.is_success else outcome


def bars(found: Iterable[Step]) -> list[Bar]:
    """Return the bars of the steps; the drawing spans the time from the first begin to the last end."""
    found = list(found)
    if not found:
        return []
    begin = min(step.begin_millis for step in found)
    end = max(step.begin_millis + step.cost_millis for step in found)
    scale = WIDTH / max(1, end - begin)
    placed = []
    for step in found:
        width = max(_BAR_WIDTH_MIN, step.cost_millis * scale)
        x = min((step.begin_millis - begin) * scale, WIDTH - width)
        placed.append(Bar(step, round(x, 1), round(width, 1)))
    return placed
