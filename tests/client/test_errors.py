from kerolox.client.errors import SendFailed
from kerolox.errors import CallTimeout


def test_a_failed_send_names_topic_brokers_attempts_time_and_cause() -> None:
    error = SendFailed("orders", 3, ["broker-a", "broker-b", "broker-a"], 2.96, CallTimeout("no answer"))

    assert str(error) == (
        "sending to topic 'orders' failed after 3 attempts in 3.0 s (broker-a, broker-b); last error: no answer"
    )
