"""Heartbeats as clients of several languages write them."""

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.clients import ConsumerData, HeartbeatData, SubscriptionData


def test_a_heartbeat_of_the_cpp_client_with_ordinals_and_strings_is_decoded() -> None:
    data = (
        b'{"clientID":"1-127.0.0.1@x","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"group",'
        b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["2598919"],"subString":"TagA","subVersion":"1700000000000",'
        b'"tagsSet":["TagA"],"topic":"orders"}]}],"producerDataSet":[]}'
    )

    heartbeat = HeartbeatData.decode(data)

    assert heartbeat.consumer_data_set == [
        ConsumerData(
            group_name="group",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            subscription_data_set=[
                SubscriptionData(
                    topic="orders",
                    sub_string="TagA",
                    sub_version=1_700_000_000_000,
                    code_set=[2598919],
                    tags_set=["TagA"],
                )
            ],
        )
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"clientID":"c","consumerDataSet":3}',
        b'{"clientID":"c","consumerDataSet":[7]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":9}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":true}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subVersion":"x"}]}]}',
    ],
)
def test_an_invalid_heartbeat_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeartbeatData.decode(data)
