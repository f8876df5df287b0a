"""Requests that a broker does not support on purpose, with the reasons that docs/reference/requests.md shows."""

from kerolox.codes import RequestCode as R

# Answered with NO_PERMISSION; the reason is the remark of the response.
REFUSED: dict[R, str] = {
    R.REGISTER_MESSAGE_FILTER_CLASS: "classes are not run here: filter by tags or by SQL92 expressions",
}

_COLD_DATA = "reads of cold data need no flow control"
_CONTAINER = "a process runs a single broker"
_ROCKSDB = "queues and tables are stored in files, not in RocksDB"
_CONTROLLER = "this broker joins no controller, so its role does not change"
_ACCESS_CONTROL = "there is no access control"
_LITE = "there are no lite topics"
_REMOVED = "RocketMQ has removed it, or never implemented it"

# Answered with REQUEST_CODE_NOT_SUPPORTED.
UNSUPPORTED: dict[R, str] = {
    R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    R.GET_COLD_DATA_FLOW_CTR_INFO: _COLD_DATA,
    R.SET_COMMITLOG_READ_MODE: "the commit log has one read mode",
    R.ADD_BROKER: _CONTAINER,
    R.REMOVE_BROKER: _CONTAINER,
    R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    R.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    R.UPDATE_AND_CREATE_STATIC_TOPIC: "there are no static topics",
    **{code: _ACCESS_CONTROL for code in R if 50 <= code <= 54 or 3001 <= code <= 3010},
    **{code: _CONTROLLER for code in R if 1001 <= code <= 1018},
    **{code: _LITE for code in R if 200070 <= code <= 200079},
    R.SWITCH_TIMER_ENGINE: "there is only the timer engine that uses files",
    **dict.fromkeys(
        (
            R.QUERY_BROKER_OFFSET,
            R.GET_TOPIC_CONFIG_LIST,
            R.GET_TOPIC_NAME_LIST,
            R.TRIGGER_DELETE_FILES,
            R.GET_CLIENT_CONFIG,
            R.SUSPEND_CONSUMER,
            R.RESUME_CONSUMER,
            R.RESET_CONSUMER_OFFSET_IN_CONSUMER,
            R.RESET_CONSUMER_OFFSET_IN_BROKER,
            R.ADJUST_CONSUMER_THREAD_POOL,
            R.WHO_CONSUME_THE_MESSAGE,
        ),
        _REMOVED,
    ),
}
