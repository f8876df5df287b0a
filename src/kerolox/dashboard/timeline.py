"""The trace of a message as a timeline: who had it, from when to when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kerolox.client import trace
from kerolox.client.trace import EndTransaction, Pub, Recall, Record, SubAfter, SubBefore

# Of a picture that is stretched to the place there is.
WIDTH = 640
_BAR_MIN = 3.0
_RECORDS_MAX = 200

_ENDS = {
    trace.SUCCESS: "consumed",
    trace.TIME_OUT: "took too long",
    trace.EXCEPTION: "raised an error",
    trace.RETURN_NULL: "returned nothing",
    trace.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a message."""

    what: str
    who: str
    begin_millis: int
    cost_millis: int
    is_good: bool
    told: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A step where it is drawn."""

    step: Step
    x: float
    width: float


def steps(records: Sequence[Record]) -> list[Step]:
    """Returns what happened, in order of time; of consuming, the beginning and the end are one step."""
    known = records[:_RECORDS_MAX]
    ends = {it.request_id: it for it in known if isinstance(it, SubAfter)}
    begun = {it.request_id for it in known if isinstance(it, SubBefore)}
    found = [_step(it, ends) for it in known if not isinstance(it, SubAfter)]
    # Of some only the end has come yet, or the beginning is lost.
    found += [_ended(it) for it in ends.values() if it.request_id not in begun]
    return sorted(found, key=lambda step: step.begin_millis)


def _step(record: Record, ends: dict[str | None, SubAfter]) -> Step:
    group = record.group or ""
    if isinstance(record, Pub):
        told = "stored" if record.is_success else "not stored"
        return Step("sent", group, record.timestamp, record.cost_millis, record.is_success, told)
    if isinstance(record, SubBefore):
        end = ends.get(record.request_id)
        what = f"consumed, try {record.retry_times + 1}"
        if end is None:
            return Step(what, group, record.timestamp, 0, True, "not done yet")
        return Step(what, group, record.timestamp, end.cost_millis, end.is_success, _outcome(end))
    if isinstance(record, EndTransaction):
        return Step("transaction", group, record.timestamp, 0, True, (record.transaction_state or "").lower())
    assert isinstance(record, Recall)
    return Step("taken back", group, record.timestamp, 0, record.is_success, "done" if record.is_success else "failed")


def _ended(record: SubAfter) -> Step:
    begin = max(0, record.timestamp - record.cost_millis)
    return Step("consumed", record.group or "", begin, record.cost_millis, record.is_success, _outcome(record))


def _outcome(record: SubAfter) -> str:
    told = _ENDS.get(record.context_code, "failed")
    # Some clients say only that it failed, and not how.
    return "failed" if told == "consumed" and not record.is_success else told


def bars(found: Iterable[Step]) -> list[Bar]:
    """Returns where to draw them, from the first moment at the left to the last at the right."""
    found = list(found)
    if not found:
        return []
    begin = min(step.begin_millis for step in found)
    end = max(step.begin_millis + step.cost_millis for step in found)
    scale = WIDTH / max(1, end - begin)
    placed = []
    for step in found:
        width = max(_BAR_MIN, step.cost_millis * scale)
        x = min((step.begin_millis - begin) * scale, WIDTH - width)
        placed.append(Bar(step, round(x, 1), round(width, 1)))
    return placed
