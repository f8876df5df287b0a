from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import EndTransaction, Pub, Recall, SubAfter, SubBefore
from kerolox.dashboard.views.trace_timeline import WIDTH, bars, steps


def test_begin_and_end_of_a_consumption_are_one_step() -> None:
    found = steps(
        [
            SubAfter(
                request_id="r1", cost_millis=30, is_success=False, context_code=trace_format.EXCEPTION, timestamp=160
            ),
            SubBefore(timestamp=130, group="shop", request_id="r1", retry_times=1),
            Pub(timestamp=100, group="makers", cost_millis=5),
        ]
    )

    assert [(it.action, it.group, it.begin_millis, it.cost_millis, it.outcome) for it in found] == [
        ("sent", "makers", 100, 5, "stored"),
        ("consumed, attempt 2", "shop", 130, 30, "raised an error"),
    ]
    assert [it.is_success for it in found] == [True, False]


def test_a_lone_begin_or_end_is_a_step_too() -> None:
    found = steps(
        [
            SubBefore(timestamp=130, group="shop", request_id="r1"),
            SubAfter(request_id="r2", cost_millis=20, is_success=False, timestamp=200, group="other"),
        ]
    )

    assert [(it.group, it.begin_millis, it.outcome) for it in found] == [
        ("shop", 130, "not finished"),
        ("other", 180, "failed"),
    ]


def test_transactions_and_recalls_are_steps() -> None:
    found = steps(
        [EndTransaction(timestamp=1, transaction_state="COMMIT_MESSAGE"), Recall(timestamp=2, is_success=False)]
    )

    assert [(it.action, it.outcome) for it in found] == [("transaction", "commit_message"), ("recalled", "failed")]


def test_bars_lie_within_the_drawing() -> None:
    found = bars(steps([Pub(timestamp=0, cost_millis=0), Pub(timestamp=10**9, cost_millis=1), Pub(timestamp=50)]))

    assert [bar.step.begin_millis for bar in found] == [0, 50, 10**9]
    assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= WIDTH for bar in found)
    assert bars([]) == []
