"""`statsAll`: rates, daily counts and lag of topics and groups."""

from kerolox.cli.admin.command import Call, Flag, Output, command, switch
from kerolox.cli.admin.output import Cell, Table

_LAYOUT = "%-64s  %-64s %12s %11s %11s %14s %14s"
_COLUMNS = (
    *("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS"),
    *("#InMsg24Hour", "#OutMsg24Hour"),
)


@command(
    "statsAll",
    "Topic and Consumer tps stats",
    switch("a", "activeTopic", "print active topic only"),
    Flag("t", "topic", "print select topic only"),
    is_watchable=True,
)
async def stats_all(call: Call) -> Output:
    rows: list[tuple[object, ...]] = []
    if call.has("topic") and not call.is_java:
        # Report an unknown topic; Java prints only the headings.
        await call.admin.topics.route(call["topic"])
    for it in await call.admin.statistics.all(topic=call.get("topic")):
        if call.has("activeTopic") and not it.in_day and not it.out_day:
            continue
        group = Cell((it.group or "")[:64], it.group)
        start = (Cell(it.topic[:64], it.topic), group, max(it.lag or 0, 0), Cell(f"{it.in_tps:.2f}", it.in_tps))
        if it.group is None:
            rows.append((*start, Cell("", None), it.in_day, Cell("NO_CONSUMER", None)))
        else:
            rows.append((*start, Cell(f"{it.out_tps:.2f}", it.out_tps), it.in_day, it.out_day))
    yield Table(_LAYOUT, _COLUMNS, rows)
