"""Topic configuration of different broker versions."""

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable, TopicList, TopicSysFlag


def test_a_topic_is_written_as_java_writes_it() -> None:
    assert TopicConfig(
        topic_name="T", read_queue_nums=8, write_queue_nums=8, perm=Perm.READ | Perm.WRITE, attributes={}
    ).encode() == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"T","topicSysFlag":0,"writeQueueNums":8}'
    )


def test_absent_members_of_a_topic_have_javas_defaults() -> None:
    assert TopicConfig.decode(b'{"topicName":"T"}') == TopicConfig(
        topic_name="T",
        read_queue_nums=16,
        write_queue_nums=16,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
        attributes=None,
    )


def test_a_topic_without_a_name_is_refused() -> None:
    with pytest.raises(ProtocolError, match="missing required field `topicName`"):
        TopicConfig.decode(b"{}")


def test_a_version_is_equal_only_if_every_member_is() -> None:
    version = DataVersion(1, 2, 3)

    assert version == DataVersion.decode(b'{"counter":1,"stateVersion":2,"timestamp":3}')
    assert version != DataVersion.decode(b'{"counter":1,"stateVersion":1,"timestamp":3}')


def test_a_version_of_4_x_has_no_state() -> None:
    assert DataVersion.decode(b'{"counter":1,"timestamp":3}') == DataVersion(1, 0, 3)


def test_a_table_of_4_x_has_no_mappings_and_none_are_written() -> None:
    table = TopicConfigTable.decode(b'{"dataVersion":{"counter":1,"timestamp":3},"topicConfigTable":{}}')

    assert (table.mapping_data_version, table.topic_queue_mapping_info_map) == (None, None)
    assert table.encode() == b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":3},"topicConfigTable":{}}'


def test_flags_are_numbers_on_the_wire() -> None:
    table = TopicConfigTable(
        topic_config_table={"T": TopicConfig(topic_name="T", topic_sys_flag=TopicSysFlag.UNIT_SUB)}
    )

    assert b'"topicSysFlag":2,' in table.encode()


def test_a_topic_list_omits_an_unknown_broker_address() -> None:
    assert TopicList([]).encode() == b'{"topicList":[]}'
    assert TopicList(["T"], "10.0.0.1:10911").encode() == b'{"brokerAddr":"10.0.0.1:10911","topicList":["T"]}'


def test_two_tables_do_not_share_their_defaults() -> None:
    first, second = TopicConfigTable(), TopicConfigTable()

    first.topic_config_table["T"] = TopicConfig(topic_name="T")
    first.data_version.counter = 1

    assert (second.topic_config_table, second.data_version.counter) == ({}, 0)
